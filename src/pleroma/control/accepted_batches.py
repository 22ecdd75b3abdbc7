"""How far the batches of each sender were accepted, so that a batch that is sent again counts once.

A sender numbers its batches upwards. It sends a batch again, under the same number, if it got no answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

MAX_REMEMBERED_SENDERS = 10_000


class AcceptedBatches:
    """Remembers so many senders: those that sent something last."""

    def __init__(self, max_senders: int = MAX_REMEMBERED_SENDERS) -> None:
        self._max_senders = max_senders
        self._last: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def has(self, sender: Hashable, number: int) -> bool:
        return number <= self._last.get(sender, -1)

    def add(self, sender: Hashable, number: int) -> None:
        self._last[sender] = max(number, self._last.get(sender, -1))
        self._last.move_to_end(sender)
        if len(self._last) > self._max_senders:
            self._last.popitem(last=False)

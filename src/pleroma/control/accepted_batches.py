"""How far the batches of each sender were accepted, so that a batch that is sent again counts once.

A sender numbers its batches upwards. It sends a batch again, under the same number, if it got no answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

MAX_REMEMBERED_SENDERS = 10_000
"""Of one principal."""


class AcceptedBatches:
    """Remembers so many senders of each principal: those that sent something last. Nobody makes it forget another's."""

    def __init__(self, max_senders: int = MAX_REMEMBERED_SENDERS) -> None:
        self._max_senders = max_senders
        self._last: dict[str, OrderedDict[Hashable, int]] = {}

    def forget(self, principal: str) -> None:
        self._last.pop(principal, None)

    def has(self, principal: str, sender: Hashable, number: int) -> bool:
        return principal in self._last and number <= self._last[principal].get(sender, -1)

    def add(self, principal: str, sender: Hashable, number: int) -> None:
        last = self._last.setdefault(principal, OrderedDict())
        last[sender] = max(number, last.get(sender, -1))
        last.move_to_end(sender)
        if len(last) > self._max_senders:
            last.popitem(last=False)

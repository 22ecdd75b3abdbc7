"""How many senders of one principal the lake is told of.

A table remembers for days how far each sender has come, and everybody who opens the table reads that. Senders choose
their names, so whoever took a new one for every batch would make the lake slow for all. What comes without a number, or
from too many senders, is numbered here: then it is landed once if a store loses the answer to a commit, at least.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from pleroma.pipeline.lake.landed import BatchId

MAX_NEW_SENDERS = 1000
"""Of one principal in an hour."""
_HOUR_SECONDS = 3600.0


class SenderAllowance:
    def __init__(self, max_new: int = MAX_NEW_SENDERS, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_new = max_new
        self._clock = clock
        self._known: dict[str, OrderedDict[str, float]] = {}
        """The senders of each principal, with the time since when they are known, oldest first."""
        self._own_sender, self._own_number = secrets.token_hex(8), 0

    def forget(self, principal: str) -> None:
        """Forget the senders of a principal, also those under its name within a table of all schemas."""
        for each in [each for each in self._known if principal in (each, each.partition("/")[2])]:
            del self._known[each]

    def within(self, batch: BatchId | None) -> BatchId:
        """The batch, or one of this controller's if there is none or its principal has too many senders."""
        if batch is None:
            return self._own_batch()
        known, now = self._known.setdefault(batch.principal, OrderedDict()), self._clock()
        if batch.sender in known:
            return batch
        if len(known) >= self._max_new:
            if now - next(iter(known.values())) < _HOUR_SECONDS:
                return self._own_batch()
            known.popitem(last=False)
        known[batch.sender] = now
        return batch

    def _own_batch(self) -> BatchId:
        self._own_number += 1
        return BatchId(self._own_sender, self._own_number)

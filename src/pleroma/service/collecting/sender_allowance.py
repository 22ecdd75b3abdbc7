"""How many senders of one principal the lake is told of.

A table remembers for days how far each sender has come, and everybody who opens the table reads that. Senders choose
their names, so whoever took a new one for every batch would make the lake slow for all.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from pleroma.pipeline.lake.landed import BatchId

MAX_NEW_SENDERS = 1000
"""Of one principal in an hour; of more senders, batches are landed without their numbers."""
_HOUR_SECONDS = 3600.0


class SenderAllowance:
    def __init__(self, max_new: int = MAX_NEW_SENDERS, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_new = max_new
        self._clock = clock
        self._known: dict[str, OrderedDict[str, float]] = {}
        """The senders of each principal, with the time since when they are known, oldest first."""

    def within(self, batch: BatchId) -> BatchId | None:
        """The batch, or None if its principal, which its sender begins with, has too many senders."""
        principal = batch.sender.rpartition("/")[0]
        known, now = self._known.setdefault(principal, OrderedDict()), self._clock()
        if batch.sender in known:
            return batch
        if len(known) >= self._max_new:
            if now - next(iter(known.values())) < _HOUR_SECONDS:
                return None
            known.popitem(last=False)
        known[batch.sender] = now
        return batch

"""What clients sent and nobody has landed yet: sampled events and reports, up to a bound.

Adding never waits: what does not fit is dropped and counted. What waits for one table stays in the order in which it
came, and goes only when it is landed: of two batches of a sender the later one, landed first, would make the earlier
one look as if it were landed too.

A landing makes a file for every hour that it has rows of. So it waits until there are enough rows for these files, but
no longer than `PATIENCE_FACTOR` says: whatever else happens, what came is durable then.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from pleroma.pipeline.lake.landed import ReportedCounters, SampledEvents

FILE_ROWS = 5_000
"""Fewer rows than this, for each file of a landing, wait for more."""
MAX_LANDED_BATCHES = 4096
"""At most so many batches are landed at once, however small they are."""
PATIENCE_FACTOR = 12
"""So many times longer do they wait at most."""

T = TypeVar("T")


@dataclass(slots=True)
class LandingCounts:
    """What became of events, or of reports."""

    landed: int = 0
    dropped: int = 0
    repeated: int = 0
    """Came again, and were there already."""


class TableQueue(Generic[T]):
    """What waits for one table. `size` says how many rows a thing is, and `hours` which hours they are of."""

    def __init__(
        self,
        counts: LandingCounts,
        size: Callable[[T], int],
        hours: Callable[[T], Collection[int]],
        clock: Callable[[], float],
    ) -> None:
        self.rows = 0
        self._counts = counts
        self._size = size
        self._hours = hours
        self._clock = clock
        self._waiting: deque[tuple[T, float]] = deque()
        self._waiting_hours: Counter[int] = Counter()
        """By hour: how many of those that wait have rows of it."""

    def add(self, given: T) -> None:
        self._waiting.append((given, self._clock()))
        self._waiting_hours.update(self._hours(given))
        self.rows += self._size(given)

    def is_due(self, land_seconds: float, max_rows: int) -> bool:
        """Whether enough for the files of a landing is waiting, or something for as long as it may."""
        if not self._waiting:
            return False
        age = self._clock() - self._waiting[0][1]
        is_enough = self.rows >= FILE_ROWS * max(len(self._waiting_hours), 1)
        patience = land_seconds if is_enough else PATIENCE_FACTOR * land_seconds
        return age >= patience or self.rows >= max_rows

    def oldest(self, max_rows: int) -> list[T]:
        """The oldest, with at most `max_rows` together, but one at least if there is any. They go on waiting."""
        chosen: list[T] = []
        rows = 0
        for given, _ in islice(self._waiting, MAX_LANDED_BATCHES):
            rows += self._size(given)
            if chosen and rows > max_rows:
                break
            chosen.append(given)
        return chosen

    def landed(self, oldest: Sequence[T], new_rows: int) -> int:
        """The oldest are in the lake; so many rows of them were not there before. How many files they made."""
        hours: Counter[int] = Counter()
        for each in oldest:
            self._waiting.popleft()
            hours.update(self._hours(each))
        self._waiting_hours -= hours
        rows = sum(map(self._size, oldest))
        self.rows -= rows
        self._counts.landed += new_rows
        self._counts.repeated += rows - new_rows
        return len(hours) if new_rows else 0


class LandingQueue:
    """At most `max_waiting` events, and as many rows of reports."""

    def __init__(self, max_waiting: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.event_counts, self.report_counts = LandingCounts(), LandingCounts()
        self.events: dict[str, TableQueue[SampledEvents]] = {}
        """By schema."""
        self.reports: TableQueue[ReportedCounters] = TableQueue(
            self.report_counts, lambda each: len(each.rows), lambda each: [_hour(each.at)], clock
        )
        self._max_waiting = max_waiting
        self._clock = clock

    @property
    def count(self) -> int:
        """Events that are not landed yet."""
        return sum(each.rows for each in self.events.values())

    def add_events(self, sampled: SampledEvents) -> int:
        """Add events: how many of them there was room for, all or none."""
        rows, name = len(sampled.events), sampled.events.schema.name
        if self.count + rows > self._max_waiting:
            self.event_counts.dropped += rows
            return 0
        if name not in self.events:
            self.events[name] = TableQueue(self.event_counts, lambda each: len(each.events), _hours_of, self._clock)
        self.events[name].add(sampled)
        return rows

    def add_reports(self, reported: ReportedCounters) -> None:
        if self.reports.rows + len(reported.rows) > self._max_waiting:
            self.report_counts.dropped += len(reported.rows)
        else:
            self.reports.add(reported)


def _hour(moment: datetime) -> int:
    return int(moment.timestamp() // 3600)


def _hours_of(sampled: SampledEvents) -> Collection[int]:
    hours: list[int] = np.unique(sampled.at.astype("datetime64[h]")).astype(np.int64).tolist()
    return hours

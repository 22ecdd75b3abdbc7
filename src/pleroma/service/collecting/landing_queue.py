"""What clients sent and nobody has landed yet: sampled events and reports, up to a bound.

Adding never waits: what does not fit is dropped and counted. What is taken to be landed still counts as waiting until
it is landed. It is taken in portions of one hour, each of which becomes one file, whole or not at all: a portion that
could not be written is given back, and nothing is landed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.content.batch import EventBatch

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake_layout import ReportRow


class SampledEvents(NamedTuple):
    """Events of one schema that a publisher drew at one rate, under one plan."""

    events: EventBatch
    at: NDArray[np.datetime64]
    epoch: int
    rate: float


class ReportedCounters(NamedTuple):
    schema: str
    at: datetime
    row: ReportRow


@dataclass(slots=True)
class LandingCounts:
    """How many events, or reports, were landed, and how many were dropped."""

    landed: int = 0
    dropped: int = 0


class LandingQueue:
    """At most `max_waiting` events, and as many reports."""

    def __init__(self, max_waiting: int) -> None:
        self.events, self.reports = LandingCounts(), LandingCounts()
        self.count = 0
        """Events that are not landed yet."""
        self._max_waiting = max_waiting
        self._report_count = 0
        self._sampled: list[SampledEvents] = []
        self._reported: list[ReportedCounters] = []

    def add_events(self, sampled: SampledEvents) -> int:
        """Add events: how many of them there was room for, all or none."""
        rows = len(sampled.events)
        if self.count + rows > self._max_waiting:
            self.events.dropped += rows
            return 0
        self._sampled.append(sampled)
        self.count += rows
        return rows

    def add_reports(self, reported: Sequence[ReportedCounters]) -> None:
        fitting = reported[: self._max_waiting - self._report_count]
        self._reported.extend(fitting)
        self._report_count += len(fitting)
        self.reports.dropped += len(reported) - len(fitting)

    def take_events(self, max_rows: int) -> list[SampledEvents]:
        """Take all events, merged into as few portions as can be, each of one hour and of at most `max_rows`."""
        taken, self._sampled = self._sampled, []
        return list(_portions(taken, max_rows))

    def take_reports(self, max_rows: int) -> list[list[ReportedCounters]]:
        """Take all reports, in portions of one schema and one hour and of at most `max_rows`."""
        taken, self._reported = self._reported, []
        alike: dict[tuple[str, datetime], list[ReportedCounters]] = {}
        for each in taken:
            hour = each.at.replace(minute=0, second=0, microsecond=0)
            alike.setdefault((each.schema, hour), []).append(each)
        return [group[first : first + max_rows] for group in alike.values() for first in range(0, len(group), max_rows)]

    def landed_events(self, sampled: SampledEvents) -> None:
        self.events.landed += len(sampled.events)
        self.count -= len(sampled.events)

    def landed_reports(self, reported: Sequence[ReportedCounters]) -> None:
        self.reports.landed += len(reported)
        self._report_count -= len(reported)

    def give_back_events(self, sampled: SampledEvents) -> None:
        """The events could not be landed now; they go on waiting."""
        self._sampled.append(sampled)

    def give_back_reports(self, reported: Sequence[ReportedCounters]) -> None:
        self._reported.extend(reported)


def _portions(sampled: Iterable[SampledEvents], max_rows: int) -> Iterator[SampledEvents]:
    alike: dict[tuple[str, int, float], list[SampledEvents]] = {}
    for each in sampled:
        alike.setdefault((each.events.schema.name, each.epoch, each.rate), []).append(each)
    for group in alike.values():
        first = group[0]
        columns = zip(*(each.events.columns for each in group), strict=True)
        events = EventBatch(first.events.schema, tuple(map(np.concatenate, columns)))
        at = np.concatenate([each.at for each in group])
        hours = at.astype("datetime64[h]")
        for hour in np.unique(hours):
            of_hour = np.flatnonzero(hours == hour)
            for row in range(0, len(of_hour), max_rows):
                rows = of_hour[row : row + max_rows]
                yield SampledEvents(events[rows], at[rows], first.epoch, first.rate)

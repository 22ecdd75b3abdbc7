"""What clients sent and nobody has landed yet: sampled events and reports, as many as there is room for.

Whoever brings something never waits: what does not fit is dropped and counted. What is taken to be landed keeps its
room until that is done. It is taken in portions of one hour, each of which becomes one file, whole or not there: one
that could not be written is given back, and nothing is landed twice.
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
    """Sampled events that were drawn at one rate, under one plan."""

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
    """How many of a kind were landed, and how many were dropped."""

    landed: int = 0
    dropped: int = 0


class LandingQueue:
    """Room for so many events and so many reports."""

    def __init__(self, room: int) -> None:
        self.events, self.reports = LandingCounts(), LandingCounts()
        self.count = 0
        """Events that are not landed yet."""
        self._room = room
        self._reports = 0
        self._drawn: list[SampledEvents] = []
        self._reported: list[ReportedCounters] = []

    def add_events(self, drawn: SampledEvents) -> int:
        """How many of them there was room for: all or none."""
        rows = len(drawn.events)
        if self.count + rows > self._room:
            self.events.dropped += rows
            return 0
        self._drawn.append(drawn)
        self.count += rows
        return rows

    def add_reports(self, reported: Sequence[ReportedCounters]) -> None:
        fitting = reported[: self._room - self._reports]
        self._reported.extend(fitting)
        self._reports += len(fitting)
        self.reports.dropped += len(reported) - len(fitting)

    def take_events(self, most: int) -> list[SampledEvents]:
        """All that wait, put together: as few portions as can be, each of one hour and of at most so many."""
        taken, self._drawn = self._drawn, []
        return list(_together(taken, most))

    def take_reports(self, most: int) -> list[list[ReportedCounters]]:
        """All that wait, by schema and hour, at most so many at once."""
        taken, self._reported = self._reported, []
        alike: dict[tuple[str, datetime], list[ReportedCounters]] = {}
        for each in taken:
            hour = each.at.replace(minute=0, second=0, microsecond=0)
            alike.setdefault((each.schema, hour), []).append(each)
        return [group[first : first + most] for group in alike.values() for first in range(0, len(group), most)]

    def landed_events(self, drawn: SampledEvents) -> None:
        self.events.landed += len(drawn.events)
        self.count -= len(drawn.events)

    def landed_reports(self, reported: Sequence[ReportedCounters]) -> None:
        self.reports.landed += len(reported)
        self._reports -= len(reported)

    def give_back_events(self, drawn: SampledEvents) -> None:
        """They could not be landed now; their room is still theirs."""
        self._drawn.append(drawn)

    def give_back_reports(self, reported: Sequence[ReportedCounters]) -> None:
        self._reported.extend(reported)


def _together(drawn: Iterable[SampledEvents], most: int) -> Iterator[SampledEvents]:
    alike: dict[tuple[str, int, float], list[SampledEvents]] = {}
    for each in drawn:
        alike.setdefault((each.events.schema.name, each.epoch, each.rate), []).append(each)
    for group in alike.values():
        first = group[0]
        columns = zip(*(each.events.columns for each in group), strict=True)
        events = EventBatch(first.events.schema, tuple(map(np.concatenate, columns)))
        at = np.concatenate([each.at for each in group])
        hours = at.astype("datetime64[h]")
        for hour in np.unique(hours):
            of_hour = np.flatnonzero(hours == hour)
            for row in range(0, len(of_hour), most):
                rows = of_hour[row : row + most]
                yield SampledEvents(events[rows], at[rows], first.epoch, first.rate)

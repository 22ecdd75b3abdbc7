"""What clients sent and nobody has landed yet: sampled events and reports, as many as there is room for.

Whoever brings something never waits: what does not fit is dropped and counted.
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
    from pleroma.pipeline.layout import ReportRow


class Drawn(NamedTuple):
    """Sampled events that were drawn at one rate, under one plan."""

    events: EventBatch
    at: NDArray[np.datetime64]
    epoch: int
    rate: float


class Reported(NamedTuple):
    schema: str
    at: datetime
    row: ReportRow


@dataclass(slots=True)
class Fate:
    """How many of a kind were landed, and how many were dropped."""

    landed: int = 0
    dropped: int = 0


class Waiting:
    """Room for so many events and so many reports."""

    def __init__(self, room: int) -> None:
        self.events, self.reports = Fate(), Fate()
        self.count = 0
        """Events that wait."""
        self._room = room
        self._drawn: list[Drawn] = []
        self._reported: list[Reported] = []

    def add_events(self, drawn: Drawn) -> int:
        """How many of them there was room for: all or none."""
        rows = len(drawn.events)
        if self.count + rows > self._room:
            self.events.dropped += rows
            return 0
        self._drawn.append(drawn)
        self.count += rows
        return rows

    def add_reports(self, reported: Sequence[Reported]) -> None:
        free = self._room - len(self._reported)
        self._reported.extend(reported[:free])
        self.reports.dropped += max(len(reported) - free, 0)

    def take_events(self, most: int) -> list[Drawn]:
        """All that wait, put together: as few portions as can be, each of at most so many."""
        taken, self._drawn, self.count = self._drawn, [], 0
        return list(_together(taken, most))

    def take_reports(self) -> dict[str, list[Reported]]:
        """All that wait, by schema."""
        taken, self._reported = self._reported, []
        by_schema: dict[str, list[Reported]] = {}
        for each in taken:
            by_schema.setdefault(each.schema, []).append(each)
        return by_schema


def _together(drawn: Iterable[Drawn], most: int) -> Iterator[Drawn]:
    alike: dict[tuple[str, int, float], list[Drawn]] = {}
    for each in drawn:
        alike.setdefault((each.events.schema.name, each.epoch, each.rate), []).append(each)
    for group in alike.values():
        first = group[0]
        columns = zip(*(each.events.columns for each in group), strict=True)
        events = EventBatch(first.events.schema, tuple(map(np.concatenate, columns)))
        at = np.concatenate([each.at for each in group])
        for row in range(0, len(events), most):
            rows = slice(row, row + most)
            yield Drawn(events[rows], at[rows], first.epoch, first.rate)

"""A summary of the traffic from one pass over it: statistics of all events, and a draw of events to try techniques on.

A pass may be split over any partitions: their summaries merge to the same bits. Techniques that evaluate allocations of
bits do so on the draw, so that none of them needs another pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.evaluation.sample import scaled
from pleroma.selection.box_blocks import BoxBlocks, keys_of
from pleroma.selection.event_draw import EventDraw, HeldOutEvents, RunningDraw
from pleroma.selection.traffic_statistics import TrafficStatistics

DRAWN_EVENTS = 100_000
"""How many events are drawn for techniques to be tried on: half of them to learn from, half to judge by."""


class NumberedBatch(NamedTuple):
    """Some events and their numbers, if they have any. No two events of a pass have the same number."""

    events: EventBatch
    numbers: Ints | None = None
    refused: int = 0
    """How many more events came that were outside the schema's domains."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialSummary:
    """The summary of some of the events of a pass."""

    statistics: TrafficStatistics
    draw: EventDraw
    refused: int = 0

    @classmethod
    def merged(cls, parts: Iterable[PartialSummary]) -> PartialSummary:
        first, *others = parts
        if not others:
            return first
        statistics = sum((part.statistics for part in others), first.statistics)
        draws = EventDraw.merged(part.draw for part in (first, *others))
        return cls(statistics, draws, sum(part.refused for part in (first, *others)))


@dataclass(frozen=True, slots=True)
class SummaryPass:
    """How to summarise events for some subscriptions. It travels to wherever the events are."""

    schema: Schema
    boxes: BoxBlocks
    draw: int = DRAWN_EVENTS
    seed: int = 0

    @classmethod
    def of(
        cls, schema: Schema, subscriptions: Sequence[Filter], draw: int = DRAWN_EVENTS, seed: int = 0
    ) -> SummaryPass:
        if not subscriptions:
            raise TuningError("there are no subscriptions to learn from", field="subscriptions")
        if isinstance(draw, bool) or not isinstance(draw, int) or draw < 2:
            raise TuningError(f"{draw!r} events are too few to draw", field="draw", value=draw)
        return cls(schema, BoxBlocks.of(schema, subscriptions), draw, seed)

    def over(self, batches: Iterable[NumberedBatch]) -> PartialSummary:
        statistics = TrafficStatistics.none(len(self.schema), self.boxes.count)
        drawing = RunningDraw(self.schema, self.draw, self.seed)
        refused = 0
        for batch in batches:
            statistics += self.statistics(batch.events)
            drawing.add(batch.events, batch.numbers)
            refused += batch.refused
        return PartialSummary(statistics, drawing.result(), refused)

    def statistics(self, events: EventBatch) -> TrafficStatistics:
        return TrafficStatistics.counted(self.boxes, keys_of(events), scaled(self.schema, events.points()))

    def finished(self, found: PartialSummary) -> TrafficSummary:
        """The summary of all events. The half of the draw to judge by is taken out of the statistics."""
        training, judging = found.draw.halves()
        if not len(judging.events):
            raise TuningError("two events are needed at least: one to learn from, one to judge by", field="events")
        return TrafficSummary(
            found.statistics.events,
            found.refused,
            found.statistics - self.statistics(judging.events),
            training.events,
            judging.events,
            HeldOutEvents(judging.tickets, self.seed),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrafficSummary:
    events: int
    refused: int
    statistics: TrafficStatistics
    """The statistics of all events but those to judge by."""
    training: EventBatch
    judging: EventBatch
    held_out: HeldOutEvents
    """The events to judge by, for a learner that sees all events and must leave these out."""


def summarise_traffic(
    events: EventBatch,
    subscriptions: Sequence[Filter],
    *,
    numbers: Ints | None = None,
    draw: int = DRAWN_EVENTS,
    seed: int = 0,
) -> TrafficSummary:
    """The summary of events that are in this process. Without `numbers`, events are numbered as they come."""
    once = SummaryPass.of(events.schema, subscriptions, draw, seed)
    return once.finished(once.over([NumberedBatch(events, np.arange(len(events)) if numbers is None else numbers)]))

"""A summary of the traffic from one pass over it: a draw of events to learn from, and statistics where they are wanted.

A pass may be split over any partitions: their summaries merge to the same bits. A tree is learned from the draw, and
techniques that evaluate allocations of bits do so on the draw, so that none of them needs another pass. Only the
papers' techniques that rank dimensions need statistics of all events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.content.event_draw import EventDraw, HeldOutEvents, RunningDraw
from pleroma.errors import TuningError
from pleroma.evaluation.sample import scaled
from pleroma.selection.box_blocks import BoxBlocks, keys_of
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

    events: int
    statistics: TrafficStatistics | None
    """None if they are not wanted."""
    draw: EventDraw
    refused: int = 0

    @classmethod
    def merged(cls, parts: Iterable[PartialSummary]) -> PartialSummary:
        first, *others = parts
        if not others:
            return first
        parts = (first, *others)
        statistics = first.statistics
        if statistics is not None:
            statistics = sum((part.statistics for part in others if part.statistics is not None), statistics)
        draws = EventDraw.merged(part.draw for part in parts)
        return cls(sum(part.events for part in parts), statistics, draws, sum(part.refused for part in parts))


@dataclass(frozen=True, slots=True)
class SummaryPass:
    """How to summarise events for some subscriptions. It travels to wherever the events are."""

    schema: Schema
    boxes: BoxBlocks | None
    """The subscriptions for which events are counted; None if no statistics are wanted."""
    draw: int = DRAWN_EVENTS
    seed: int = 0

    @classmethod
    def of(
        cls,
        schema: Schema,
        subscriptions: Sequence[Filter],
        draw: int = DRAWN_EVENTS,
        seed: int = 0,
        *,
        statistics: bool = False,
    ) -> SummaryPass:
        if not subscriptions:
            raise TuningError("there are no subscriptions to learn from", field="subscriptions")
        if isinstance(draw, bool) or not isinstance(draw, int) or draw < 2:
            raise TuningError(f"{draw!r} events are too few to draw", field="draw", value=draw)
        return cls(schema, BoxBlocks.of(schema, subscriptions) if statistics else None, draw, seed)

    def over(self, batches: Iterable[NumberedBatch]) -> PartialSummary:
        statistics = None if self.boxes is None else TrafficStatistics.none(len(self.schema), self.boxes.count)
        drawing = RunningDraw(self.schema, self.draw, self.seed)
        events = refused = 0
        for batch in batches:
            if statistics is not None and self.boxes is not None:
                statistics += self._counted(self.boxes, batch.events)
            drawing.add(batch.events, batch.numbers)
            events += len(batch.events)
            refused += batch.refused
        return PartialSummary(events, statistics, drawing.result(), refused)

    def _counted(self, boxes: BoxBlocks, events: EventBatch) -> TrafficStatistics:
        return TrafficStatistics.counted(boxes, keys_of(events), scaled(self.schema, events.points()))

    def finished(self, found: PartialSummary) -> TrafficSummary:
        """The summary of all events. The half of the draw to judge by is taken out of the statistics."""
        training, judging = found.draw.halves()
        if not len(judging.events):
            raise TuningError("two events are needed at least: one to learn from, one to judge by", field="events")
        statistics = found.statistics
        if statistics is not None and self.boxes is not None:
            statistics -= self._counted(self.boxes, judging.events)
        return TrafficSummary(
            found.events,
            found.refused,
            statistics,
            training.events,
            judging.events,
            HeldOutEvents(judging.tickets, self.seed),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrafficSummary:
    events: int
    refused: int
    statistics: TrafficStatistics | None
    """The statistics of all events but those to judge by; None if they were not wanted."""
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
    statistics: bool = False,
) -> TrafficSummary:
    """The summary of events that are in this process. Without `numbers`, events are numbered as they come."""
    once = SummaryPass.of(events.schema, subscriptions, draw, seed, statistics=statistics)
    return once.finished(once.over([NumberedBatch(events, np.arange(len(events)) if numbers is None else numbers)]))

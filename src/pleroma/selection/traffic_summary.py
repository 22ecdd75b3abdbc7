"""What one pass over the traffic leaves for the tuners: statistics of all events, and a draw of them to try things on.

A pass may be split over any partitions: what its parts leave is merged to the same bits. Techniques that evaluate
allocations do so on the draw, so that none of them needs another pass.
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
"""Events that techniques are tried on: half of them to learn from, half to judge by."""


class NumberedBatch(NamedTuple):
    """Some events; where they have numbers, no two events of a pass have the same."""

    events: EventBatch
    numbers: Ints | None = None
    refused: int = 0
    """Events outside the schema's domains that came with them."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialSummary:
    """What a pass over some events has found."""

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
    """A pass over events, ready to begin; it travels to wherever the events are."""

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
        """The judging half of the draw is taken out of the statistics: what learns has not seen it."""
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
    """Of all events but those that judge."""
    training: EventBatch
    judging: EventBatch
    held_out: HeldOutEvents
    """What judges, for whoever learns from all events."""


def summarise_traffic(
    events: EventBatch,
    subscriptions: Sequence[Filter],
    *,
    numbers: Ints | None = None,
    draw: int = DRAWN_EVENTS,
    seed: int = 0,
) -> TrafficSummary:
    """In this process. Events without numbers are numbered as they come."""
    once = SummaryPass.of(events.schema, subscriptions, draw, seed)
    return once.finished(once.over([NumberedBatch(events, np.arange(len(events)) if numbers is None else numbers)]))

"""Trying the techniques on a workload and saying which is best, by events that none of them has seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError, UnknownName
from pleroma.index import GridIndex, Index, SelectiveIndex, Waste
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.outcome import Outcome, judge
from pleroma.tuning.sample import Sample
from pleroma.tuning.selection import EVALUATING, Dimensions, Evidence, select
from pleroma.tuning.splits import SPLITS
from pleroma.tuning.statistics import Statistics

CUTS = ("regular", "adaptive", "selective")
"""The splits that send an event once."""
SELECTIONS = ("evs", "sms", "emcs", "sfs", "cs", "pfs-cmm", "ges")


@dataclass(frozen=True, slots=True)
class Advice:
    """A technique, the index it made from the training events, and what that does with the others."""

    technique: str
    dimensions: Dimensions
    index: Index
    outcome: Outcome
    unlimited: Waste
    """What the bits alone would waste, with as many dz per subscription as it takes: the papers' figure."""
    by_count: dict[int, Waste]
    """By number of dimensions: the waste of this technique on the events it learned from, under the limit."""
    seconds: float
    """For choosing dimensions, for every count, and making the index; not for judging."""

    @property
    def bits(self) -> dict[str, int]:
        """Bits by attribute, those without left out; where regions differ, the most that any gives."""
        grids: list[GridIndex] = []
        if isinstance(self.index, SelectiveIndex):
            grids = [region.grid for region in self.index.regions]
        elif isinstance(self.index, GridIndex):
            grids = [self.index]
        names = self.index.schema.names
        most = {names[d]: max(g.axes[d].bits if d in g.axes else 0 for g in grids) for d in self.dimensions}
        return {name: bits for name, bits in most.items() if bits}

    @property
    def rectangles(self) -> int:
        return len(self.index.regions) - 1 if isinstance(self.index, SelectiveIndex) else 0


def advise(
    events: EventBatch,
    subscriptions: Sequence[Filter],
    bits: int,
    *,
    max_members: int | None = 32,
    selections: Iterable[str] = SELECTIONS,
    splits: Iterable[str] = CUTS,
    seed: int = 0,
    advance: Callable[[float], None] = lambda _: None,
) -> list[Advice]:
    """Every selection with every way to split, best first. Half of the events train, the other half judges.

    Each technique chooses its number of dimensions by the training events, under the same limit on members. Those that
    choose dimensions by evaluation do so with the split in the loop.
    """
    if len(events) < 2:
        raise TuningError("two events are needed at least: one to learn from, one to judge by", field="events")
    training, unseen = halves(events, seed)
    sample = Sample.of(training, subscriptions)
    regular = GridEvaluator(sample, bits)
    statistics = Statistics.of(sample)
    judges = GridEvaluator(Sample.of(unseen, subscriptions), bits)
    everything = tuple(range(len(sample.schema)))
    found = []
    for name in splits:
        if name not in SPLITS:
            raise UnknownName("split", name, SPLITS)
        split = SPLITS[name](sample, bits)
        known: dict[Dimensions, Waste] = {}
        for selection in (None, *selections):
            start = time.perf_counter()
            evidence = Evidence(statistics, split if selection in EVALUATING else regular, seed)
            counts = range(1, len(everything) + 1)
            sets = [everything] if selection is None else [select(selection, evidence, n) for n in counts]
            seconds = time.perf_counter() - start
            for dims in sets:
                if dims not in known:
                    known[dims] = judge(split.index(dims), subscriptions, training, max_members).waste
            best = min(sets, key=lambda dims: known[dims].deliveries)
            start = time.perf_counter()
            index = split.index(best)
            seconds += time.perf_counter() - start
            found.append(
                Advice(
                    name if selection is None else f"{selection} + {name}",
                    best,
                    index,
                    judge(index, subscriptions, unseen, max_members),
                    judges.waste_of(index),
                    {len(dims): known[dims] for dims in sets},
                    seconds,
                )
            )
            advance(1)
    return sorted(found, key=lambda each: (each.outcome.waste.rate, each.outcome.rules))


def halves(events: EventBatch, seed: int) -> tuple[EventBatch, EventBatch]:
    """Events to learn from and events to judge by, drawn at random."""
    shuffled = np.random.default_rng(seed).permutation(len(events))
    return events[np.sort(shuffled[::2])], events[np.sort(shuffled[1::2])]

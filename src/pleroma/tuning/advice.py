"""Trying the techniques on a workload and saying which is best, by events that none of them has seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.index import GridIndex, Waste
from pleroma.index.axis import MAX_LISTED_BITS
from pleroma.tuning.adaptive import adaptive_grid
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.outcome import Outcome, judge
from pleroma.tuning.sample import Sample
from pleroma.tuning.selection import Evidence, select
from pleroma.tuning.statistics import Statistics

SELECTIONS = ("evs", "sms", "emcs", "sfs", "cs", "pfs-cmm", "ges")
SPLITS = ("regular", "adaptive")
Grid = Callable[[tuple[int, ...]], GridIndex]


@dataclass(frozen=True, slots=True)
class Advice:
    """A technique, the index it made from the training events, and what that does with the others."""

    technique: str
    index: GridIndex
    outcome: Outcome
    unlimited: Waste
    """What the bits alone would waste, with as many dz per subscription as it takes: the papers' figure."""
    seconds: float

    @property
    def bits(self) -> dict[str, int]:
        """Bits by attribute, those without left out."""
        return {self.index.schema.attributes[d].name: axis.bits for d, axis in self.index.axes.items()}


def advise(
    events: EventBatch,
    subscriptions: Sequence[Filter],
    bits: int,
    *,
    max_members: int | None = 32,
    selections: Iterable[str] = SELECTIONS,
    splits: Iterable[str] = SPLITS,
    seed: int = 0,
    advance: Callable[[float], None] = lambda _: None,
) -> list[Advice]:
    """Every selection with every way to split, best first. Half of the events train, the other half judges.

    Each technique chooses its number of dimensions by the training events, under the same limit on members.
    """
    if len(events) < 2:
        raise TuningError("two events are needed at least: one to learn from, one to judge by", field="events")
    shuffled = np.random.default_rng(seed).permutation(len(events))
    training, unseen = events[np.sort(shuffled[::2])], events[np.sort(shuffled[1::2])]
    sample = Sample.of(training, subscriptions)
    evidence = Evidence(Statistics.of(sample), GridEvaluator(sample, bits), seed)
    judges = GridEvaluator(Sample.of(unseen, subscriptions), bits)
    names = sample.schema.names
    makers: dict[str, Grid] = {
        "regular": lambda dims: GridIndex.regular(sample.schema, bits, [names[d] for d in dims]),
        "adaptive": lambda dims: adaptive_grid(sample, bits, dims),
    }
    known: dict[tuple[str, tuple[int, ...]], tuple[GridIndex, Outcome]] = {}

    def tried(split: str, dims: tuple[int, ...]) -> tuple[GridIndex, Outcome]:
        if (split, dims) not in known:
            index = makers[split](dims)
            known[split, dims] = index, judge(index, subscriptions, training, max_members)
        return known[split, dims]

    found = []
    for split in splits:
        everything = tuple(range(len(names)))
        for selection in (None, *selections):
            start = time.perf_counter()
            counts = range(1, len(names) + 1)
            sets = [everything] if selection is None else [select(selection, evidence, n) for n in counts]
            sets = [dims for dims in sets if len(dims) > 1 or split == "regular" or _lists(sample, dims, bits)]
            index, _ = min((tried(split, dims) for dims in sets), key=lambda each: each[1].waste.deliveries)
            seconds = time.perf_counter() - start
            name = split if selection is None else f"{selection} + {split}"
            outcome = judge(index, subscriptions, unseen, max_members)
            found.append(Advice(name, index, outcome, judges.waste_of(index), seconds))
            advance(1)
    return sorted(found, key=lambda each: (each.outcome.waste.rate, each.outcome.rules))


def _lists(sample: Sample, dims: tuple[int, ...], bits: int) -> bool:
    """Whether one dimension takes so few bits that its boundaries can be listed."""
    return min(sample.schema.attributes[dims[0]].bits, bits) <= MAX_LISTED_BITS

"""Trying the techniques on a workload and saying which is best, by events that none of them has seen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError, UnknownName
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.network_outcome import NetworkJudge, Placement
from pleroma.evaluation.outcome import Judge, Outcome
from pleroma.evaluation.sample import Sample
from pleroma.index import GridIndex, Index, SelectiveIndex, TreeIndex, Waste
from pleroma.index.tree_walk import LEAF
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.selection.dimension_selection import EVALUATING, Dimensions, Evidence, select
from pleroma.selection.splits import SPLITS, SplitMethod
from pleroma.selection.traffic_summary import TrafficSummary, summarise_traffic

DEFAULT_SPLITS = ("regular", "adaptive", "selective")
"""The splits that send an event once."""
LEARNED = "learned"
"""A tree grown for the workload: `learning.learner`."""
LEARNED_FROM_ALL = "learned from all events"
"""The same, where events are too many to have them all here: `learning.level_growth`."""
SHORTER_LENGTHS = (8, 10, 12, 14, 16, 20)
"""What techniques may shorten their dz to when rules are limited."""
MAX_UNLIMITED_BITS = 10
"""Up to so many bits, covers need no limit on their members."""
LONG_DZ_MEMBERS = 32
FINALISTS_PER_LENGTH = 2
DEFAULT_SELECTIONS = ("evs", "sms", "emcs", "sfs", "cs", "pfs-cmm", "ges")


@dataclass(frozen=True, slots=True)
class Advice:
    """A technique, the index it made from the training events, and what that does with the others."""

    technique: str
    dimensions: Dimensions
    index: Index
    outcome: Outcome
    members: int | None
    """The limit on dz per subscription that goes with it."""
    unlimited: Waste
    """What the bits alone would waste, with as many dz per subscription as it takes: the papers' figure."""
    by_count: dict[int, Waste]
    """By number of dimensions: the waste of this technique on the events it learned from, under the limit."""
    seconds: float
    """For choosing dimensions, for every count, and making the index; not for judging."""

    @property
    def bits(self) -> dict[str, int]:
        """Bits by attribute, those without left out; where regions differ, the most that any gives."""
        names = self.index.schema.names
        if isinstance(self.index, TreeIndex):
            return {names[d]: n for d, n in sorted(_deepest(self.index).items())}
        grids: list[GridIndex] = []
        if isinstance(self.index, SelectiveIndex):
            grids = [region.grid for region in self.index.regions]
        elif isinstance(self.index, GridIndex):
            grids = [self.index]
        most = {names[d]: max(g.axes[d].bits if d in g.axes else 0 for g in grids) for d in self.dimensions}
        return {name: bits for name, bits in most.items() if bits}

    @property
    def rectangles(self) -> int:
        return len(self.index.regions) - 1 if isinstance(self.index, SelectiveIndex) else 0


def advise(
    events: EventBatch, subscriptions: Sequence[Filter], bits: int, *, seed: int = 0, **how: Any
) -> list[Advice]:
    """Every selection with every way to split, and a learned tree, best first. Half of the events train, half judge.

    The others of its arguments are those of `advise_from`.
    """
    return advise_from(summarise_traffic(events, subscriptions, seed=seed), subscriptions, bits, seed=seed, **how)


def advise_from(
    gathered: TrafficSummary,
    subscriptions: Sequence[Filter],
    bits: int,
    *,
    max_members: int | None = 32,
    rules: int | None = None,
    selections: Iterable[str] = DEFAULT_SELECTIONS,
    splits: Iterable[str] = DEFAULT_SPLITS,
    seed: int = 0,
    placement: Placement | None = None,
    grown: Callable[[Budget], TreeIndex] | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> list[Advice]:
    """The same from what a pass over the events has gathered.

    Each technique chooses its number of dimensions by the training events, under the same limit on members. Those that
    choose dimensions by evaluation do so with the split in the loop. With a limit on `rules`, each may also take fewer
    bits to keep to it, and what does not comes last; without one, the tree may take as many as the best of the others.
    Without a `placement`, every subscription has a port of its own on one switch; with it, waste is that at the hosts,
    and rules are those of the fullest switch. `grown` makes another tree, from more events than were drawn.
    """

    def judge(events: EventBatch) -> Judge | NetworkJudge:
        if placement is None:
            return Judge(subscriptions, events)
        return NetworkJudge(subscriptions, events, placement)

    training, unseen, statistics = gathered.training, gathered.judging, gathered.statistics
    by_training, by_unseen = judge(training), judge(unseen)
    sample = by_training.sample
    regular = GridEvaluator(sample, bits)
    judges = GridEvaluator(by_unseen.sample, bits)
    everything = tuple(range(len(sample.schema)))
    lengths = [bits] if rules is None else [*(n for n in SHORTER_LENGTHS if n < bits), bits]
    found = []
    for name in splits:
        if name not in SPLITS:
            raise UnknownName("split", name, SPLITS)
        ways = {n: way for n in lengths if (way := _split(name, sample, n, n == bits)) is not None}
        known: dict[tuple[int, Dimensions], Outcome] = {}
        for selection in (None, *selections):
            seconds = 0.0
            sets: dict[tuple[int, Dimensions], None] = {}
            for length, split in ways.items():
                start = time.perf_counter()
                evidence = Evidence(statistics, split if selection in EVALUATING else regular, seed)
                counts = range(1, len(everything) + 1)
                chosen = [everything] if selection is None else [select(selection, evidence, n) for n in counts]
                seconds += time.perf_counter() - start
                if rules is not None:  # with many lengths to try, only the best by the bits alone
                    chosen = sorted(set(chosen), key=lambda dims: split.waste(dims).deliveries)[:FINALISTS_PER_LENGTH]
                sets |= dict.fromkeys((length, dims) for dims in chosen)
            limits = {length: _members(length, max_members, rules) for length in ways}
            for length, dims in sets:
                if (length, dims) not in known:
                    known[length, dims] = by_training.outcome(ways[length].index(dims), limits[length])
            best = min(sets, key=lambda each: _rank(known[each], rules))
            start = time.perf_counter()
            index = ways[best[0]].index(best[1])
            seconds += time.perf_counter() - start
            found.append(
                Advice(
                    name if selection is None else f"{selection} + {name}",
                    best[1],
                    index,
                    by_unseen.outcome(index, limits[best[0]]),
                    limits[best[0]],
                    judges.waste_of(index),
                    {len(dims): known[best[0], dims].waste for length, dims in sets if length == best[0]},
                    seconds,
                )
            )
            advance(1)
    room = min(found, key=lambda each: _rank(each.outcome, rules)).outcome.rules if rules is None else rules
    budget = Budget(rules=max(room, 1), own=() if placement is None else placement.limits)
    learning = sample if placement is None else sample.grouped(placement.homes)
    spread = () if placement is None else placement.spread

    def learned(budget: Budget) -> TreeIndex:
        return learn(learning, bits, budget, spread=spread, seed=seed).index

    for name, made in ((LEARNED, learned), (LEARNED_FROM_ALL, grown)):
        if made is not None:
            start = time.perf_counter()
            tree = made(budget)
            seconds = time.perf_counter() - start
            outcome = by_unseen.outcome(tree, max_members)
            found.append(
                Advice(name, dimensions_by_use(tree), tree, outcome, max_members, judges.waste_of(tree), {}, seconds)
            )
            advance(1)
    return sorted(
        found, key=lambda each: (exceeds_room(each.outcome, rules), each.outcome.waste.rate, each.outcome.rules)
    )


def _members(length: int, most: int | None, rules: int | None) -> int | None:
    """Where rules are limited and members are not, covers of long dz would have more of them than any table."""
    return LONG_DZ_MEMBERS if most is None and rules is not None and length > MAX_UNLIMITED_BITS else most


def _split(name: str, sample: Sample, bits: int, needed: bool) -> SplitMethod | None:
    """None where a technique has no use for so few bits."""
    try:
        return SPLITS[name](sample, bits)
    except TuningError:
        if needed:
            raise
        return None


def exceeds_room(outcome: Outcome, rules: int | None) -> bool:
    """Whether some table has more rules than it may have."""
    return outcome.beyond > 0 or (rules is not None and outcome.rules > rules)


def _rank(outcome: Outcome, rules: int | None) -> tuple[int, int]:
    """First what keeps to the limit, and of what does not, what comes nearest."""
    return outcome.rules if exceeds_room(outcome, rules) else 0, outcome.waste.deliveries


def dimensions_by_use(tree: TreeIndex) -> Dimensions:
    """The dimensions that a tree cuts, the most often cut first."""
    return tuple(d for d, _ in Counter(d for d in tree.dimensions if d != LEAF).most_common())


def _deepest(tree: TreeIndex) -> dict[int, int]:
    """By dimension, the most cuts on any path."""
    most: dict[int, int] = {}
    path: dict[int, dict[int, int]] = {0: {}}
    for node, d in enumerate(tree.dimensions):
        cut = path.pop(node)
        if d != LEAF:
            below = cut | {d: cut.get(d, 0) + 1}
            most[d] = max(most.get(d, 0), below[d])
            path[node + 1] = path[tree.layout.right[node]] = below
    return most


def random_halves(events: EventBatch, seed: int) -> tuple[EventBatch, EventBatch]:
    """Events to learn from and events to judge by, drawn at random."""
    shuffled = np.random.default_rng(seed).permutation(len(events))
    return events[np.sort(shuffled[::2])], events[np.sort(shuffled[1::2])]

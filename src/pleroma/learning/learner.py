"""Learning a tree: the event space cut where that saves the most deliveries for the rules that switches have.

How the events are smoothed, and whether cuts are made for what they save now or in the end, is decided by events set
aside. More splits never deliver more, on any event: what a tree has learned too well costs rules, not deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.evaluation.placement import Spread
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of
from pleroma.index import TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.learning.cuts import RankedBoxes, Ranks
from pleroma.learning.fitting import Budget, fitted
from pleroma.learning.growth import GrownTree, GrowthLimits, RankedTraffic, grow, root_alone
from pleroma.learning.rule_counts import SplitSequence
from pleroma.learning.smoothing import SMOOTHINGS, WeightedPoints

SET_ASIDE_SHARE = 0.25
"""The share of the events that is set aside to compare smoothings by."""
MAX_COMPARED_EVENTS = 12_000
"""At most so many events are used to compare smoothings, with a budget that is smaller in proportion."""
TREES_IN_PARALLEL = 2
"""So many of the trees to be compared are grown at a time: most of that runs without the interpreter's lock."""
BOX_SHARE = 0.1
"""What telling apart two subscriptions of one subscriber counts, where those of two subscribers count 1."""
LEARNING_STEPS = len(SMOOTHINGS) + 1
"""So many steps a learner advances, where it compares smoothings: one for each, and one for the tree."""
CUT_AT_ONCE = "at once"
"""The name, among the trees compared, of the one whose cuts are all made for what they save at once.

That is better where many subscriptions share a host.
"""


@dataclass(slots=True, eq=False)
class SampleGrowth:
    """A tree that is grown over a sample, within bounds where there are some; `leaves` as in `GrowthLimits`."""

    sample: Sample
    seen: WeightedPoints
    bits: int
    leaves: int = 0
    bounds: tuple[Floats, Floats] | None = None
    _cuts: list[Floats] = field(init=False)
    _traffic: RankedTraffic = field(init=False)
    _grown: GrownTree = field(init=False)

    def __post_init__(self) -> None:
        sample, seen = self.sample, self.seen
        cuts = [candidate_cuts(sample, d, self.bounds) for d in range(len(sample.schema))]
        self._cuts = cuts
        self._traffic = RankedTraffic(ranks_of(cuts, seen.points), seen.weight, ranked_boxes(cuts, sample))
        self._grown = root_alone(len(seen.points), np.array([len(each) for each in cuts], np.int64))

    def grow(self, splits: int) -> None:
        self._grown = grow(self._grown, self._traffic, GrowthLimits(self.bits, splits, self.leaves))

    def splits(self, max_splits: int) -> SplitSequence:
        nodes = self._grown.nodes
        count = min(2 * max_splits + 1, len(nodes.dim))
        dim, at, child = nodes.dim[:count], nodes.at[:count], nodes.child[:count]
        values = np.zeros(count)
        for d, cuts in enumerate(self._cuts):
            values[dim == d] = cuts[at[dim == d]]
        child = np.where(child < count, child, 0)
        return SplitSequence(np.where(child, dim, LEAF), values, child)

    def gains(self) -> Floats:
        """What each split that has been made saves at once."""
        nodes = self._grown.nodes
        cut = np.flatnonzero(nodes.child)
        child = nodes.child[cut]
        gain = np.empty(len(cut))
        gain[child // 2] = nodes.cost[cut] - nodes.cost[child] - nodes.cost[child + 1]
        return gain


class GrowthStyle(NamedTuple):
    """How a tree is grown."""

    smoothing: str
    patient: bool


@dataclass(frozen=True, slots=True)
class LearnedTree:
    index: TreeIndex
    rules: int
    """The rules of the fullest switch."""
    smoothing: str
    patient: bool
    """Whether cuts were made for what nodes will cost in the end, where there were bits enough."""
    compared: dict[str, int]
    """By smoothing, and under `CUT_AT_ONCE`: how often a tree from the other events delivers those set aside."""

    @property
    def style(self) -> GrowthStyle:
        return GrowthStyle(self.smoothing, self.patient)


def learn(
    sample: Sample,
    bits: int,
    budget: Budget,
    *,
    spread: Spread = (),
    smoothing: str | None = None,
    patient: bool | None = None,
    seed: int = 0,
    advance: Callable[[float], None] = lambda _: None,
) -> LearnedTree:
    """The tree that wastes least within a budget.

    Every owner of the sample is a subscriber to be told apart. Without a `spread`, each has a port of its own on one
    switch. With it, rules are counted for each switch, where subscribers behind the same port need no separate ones,
    and no switch may have more than its own budget.
    """
    if smoothing is not None or patient is not None or sample.events < 2 / SET_ASIDE_SHARE:
        chosen, waits = smoothing or next(iter(SMOOTHINGS)), patient is not False
        return LearnedTree(*_fitted(sample, bits, budget, spread, chosen, waits, seed), chosen, waits, {})
    order = np.random.default_rng([seed, 1]).permutation(sample.events)
    count = min(len(order), MAX_COMPARED_EVENTS)
    aside = order[: int(count * SET_ASIDE_SHARE)]
    judging, compared = _only(sample, aside), {}
    few, part = _only(sample, order[len(aside) : count]), budget.part((count - len(aside)) / sample.events)
    with ThreadPoolExecutor(TREES_IN_PARALLEL) as threads:
        tried = threads.map(lambda name: _fitted(few, bits, part, spread, name, True, seed)[0], SMOOTHINGS)
        for name, tree in zip(SMOOTHINGS, tried, strict=True):
            compared[name] = deliveries_of(tree, judging)
            advance(1)
        chosen = min(compared, key=lambda name: compared[name])
        if count == sample.events:
            compared[CUT_AT_ONCE] = deliveries_of(_fitted(few, bits, part, spread, chosen, False, seed)[0], judging)
            waits = compared[chosen] <= compared[CUT_AT_ONCE]
            index, rules = _fitted(sample, bits, budget, spread, chosen, waits, seed)
        else:  # patience depends on the number of leaves: it is tried at full size, without the few events set aside
            rest = _only(sample, order[len(aside) :])
            both = threads.map(lambda each: _fitted(rest, bits, budget, spread, chosen, each, seed), (True, False))
            patiently, at_once = both
            waits = deliveries_of(patiently[0], judging) <= deliveries_of(at_once[0], judging)
            index, rules = patiently if waits else at_once
    advance(1)
    return LearnedTree(index, rules, chosen, waits, compared)


def _only(sample: Sample, events: Ints) -> Sample:
    kept = np.sort(events)
    return replace(sample, points=sample.points[kept], keys=sample.keys[kept])


def _fitted(
    sample: Sample,
    bits: int,
    budget: Budget,
    spread: Spread,
    smoothing: str,
    patient: bool,
    seed: int,
) -> tuple[TreeIndex, int]:
    seen = SMOOTHINGS[smoothing](sample, np.random.default_rng([seed, 2]))
    return fitted(SampleGrowth(sample, seen, bits, budget.meant if patient else 0), budget, spread)


def candidate_cuts(sample: Sample, d: int, bounds: tuple[Floats, Floats] | None) -> Floats:
    """Where a cut along dimension d can leave a box out: at its first coordinate, and behind its last."""
    low, high = sample.schema.attributes[d].extent if bounds is None else (bounds[0][d], bounds[1][d])
    found = np.unique(np.concatenate([sample.first[:, d], np.nextafter(sample.last[:, d], np.inf)]))
    return np.asarray(found[(found > low) & (found <= high)])


def ranked_boxes(cuts: Sequence[Floats], sample: Sample) -> RankedBoxes:
    """The boxes of a sample as ranks; those of an owner are a group."""
    first, last = ranks_of(cuts, sample.first), ranks_of(cuts, sample.last)
    return RankedBoxes(first, last, sample.owner.astype(np.int32), BOX_SHARE)


def ranks_of(cuts: Sequence[Floats], values: Floats) -> Ranks:
    """By dimension and row of `values`: how many cuts of the dimension are at or below the value."""
    columns = [np.searchsorted(each, values[:, d], "right") for d, each in enumerate(cuts)]
    return np.ascontiguousarray(np.stack(columns).astype(np.int32))

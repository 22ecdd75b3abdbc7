"""Growing a tree without having the events: level by level, from counts that others make where the events are.

Best-first growth takes the split of largest gain among the leaves there are. So it takes those splits whose worth, the
least gain on the way from the root, is largest; a node that enough others exceed in worth will never be cut. All nodes
that may still be cut are counted in one pass over the events, then their children. In the end the splits are put in the
order of best-first growth: both come to the same tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.evaluation.placement import Spread
from pleroma.evaluation.sample import Sample
from pleroma.index import TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.learning.bins import NodeBins, TreeSoFar
from pleroma.learning.cuts import (
    MAX_BINS,
    BinnedNode,
    CutScratch,
    RankedBoxes,
    Ranks,
    best_of,
    can_wait,
    cut_scratch,
    met_by,
)
from pleroma.learning.fitting import Budget, fitted
from pleroma.learning.learner import candidate_cuts, ranked_boxes
from pleroma.learning.rule_counts import SplitSequence
from pleroma.learning.smoothing import FLOOR_SHARE, MAX_EXTRA_POINTS, inside_subscriptions, weight_of_each

MAX_COUNTERS_PER_PASS = 1 << 23
"""How many counters a pass may have. Nodes that need more counters are counted in several passes."""

CountPass = Callable[[NodeBins], Ints]
"""Counts all events in bins, in a pass over them."""


@dataclass(slots=True, eq=False)
class LevelNode:
    """A part of the event space, and its best split where that is known and gains something."""

    depth: int
    low: Ints
    high: Ints
    boxes: Ranks
    within: float
    """The least gain of the splits above the node."""
    gain: float = 0.0
    dim: int = LEAF
    at: int = 0
    child: int = 0
    """The number of the first of its two parts, which follow each other; 0 until they are needed."""

    @property
    def worth(self) -> float:
        return min(self.gain, self.within)


@dataclass(slots=True, eq=False)
class LevelGrowth:
    """A tree that is grown from counts of events. `sample` has the boxes; its events are not looked at."""

    sample: Sample
    bits: int
    count: CountPass
    floor: float = FLOOR_SHARE
    """What points inside subscriptions weigh together, as a share of the weight of all events."""
    seed: int = 0
    leaves: int = 0
    """The number of leaves that the tree is meant to have, as in `GrowthLimits`."""
    passes: int = field(default=0, init=False)
    events: int = field(default=0, init=False)
    nodes: list[LevelNode] = field(default_factory=list, init=False)
    _cuts: list[Floats] = field(default_factory=list, init=False)
    _boxes: RankedBoxes = field(init=False)
    _scratch: CutScratch = field(init=False)
    _points: Floats = field(init=False)
    """Points inside subscriptions, which count beside the events."""
    _cost: float = field(default=0.0, init=False)
    """What the root costs."""

    def __post_init__(self) -> None:
        sample = self.sample
        self._cuts = [candidate_cuts(sample, d, None) for d in range(len(sample.schema))]
        self._boxes = ranked_boxes(self._cuts, sample)
        self._scratch = cut_scratch(self._boxes)
        random = np.random.default_rng([self.seed, 2])
        self._points = inside_subscriptions(sample, random, self.floor, MAX_EXTRA_POINTS if self.floor else 0).points
        high = np.array([len(each) for each in self._cuts], np.int64)
        everything = np.arange(sample.boxes, dtype=np.int32)
        self.nodes = [LevelNode(0, np.zeros_like(high), high, everything, np.inf)]
        if self.bits > 0:
            self._count_in([0])

    def grow(self, splits: int) -> None:
        while True:
            known = [node.worth for node in self.nodes if node.gain > 0]
            least = np.partition(known, -splits)[-splits] if 0 < splits < len(known) else 0.0
            opened = [node for node in self.nodes if node.gain > 0 and not node.child and node.worth >= least]
            if not splits or not opened:
                return
            new = [at for node in opened for at in self._part(node) if self.nodes[at].depth < self.bits]
            if new:
                self._count_in(new)

    def _taken(self, splits: int) -> Iterator[tuple[int, LevelNode]]:
        """The first splits that best-first growth takes, with the numbers of their nodes in it."""
        if not splits or self.nodes[0].gain <= 0:
            return
        heap = [(-self.nodes[0].gain, 0, self.nodes[0])]
        for made in range(splits):
            if not heap:
                return
            _, number, node = heapq.heappop(heap)
            yield number, node
            for side in range(2):
                part = self.nodes[node.child + side]
                if part.gain > 0:
                    heapq.heappush(heap, (-part.gain, 2 * made + 1 + side, part))

    def splits(self, max_splits: int) -> SplitSequence:
        taken = list(self._taken(max_splits))
        size = 2 * len(taken) + 1
        made = SplitSequence(np.full(size, LEAF, np.int64), np.zeros(size), np.zeros(size, np.int64))
        for k, (number, node) in enumerate(taken):
            made.dims[number], made.cuts[number] = node.dim, self._cuts[node.dim][node.at]
            made.child[number] = 2 * k + 1
        return made

    def _part(self, node: LevelNode) -> tuple[int, int]:
        node.child = len(self.nodes)
        d, k = node.dim, node.at
        high, low = node.high.copy(), node.low.copy()
        high[d], low[d] = k, k + 1
        below = node.boxes[self._boxes.first[d][node.boxes] <= k]
        above = node.boxes[self._boxes.last[d][node.boxes] > k]
        self.nodes.append(LevelNode(node.depth + 1, node.low, high, below, node.worth))
        self.nodes.append(LevelNode(node.depth + 1, low, node.high, above, node.worth))
        return node.child, node.child + 1

    def _count_in(self, numbers: list[int]) -> None:
        """Count the events of some nodes, and find the best split of each."""
        tree = self._tree()
        widest = MAX_BINS * len(self._cuts)
        for at in range(0, len(numbers), max(MAX_COUNTERS_PER_PASS // widest, 1)):
            chosen = numbers[at : at + max(MAX_COUNTERS_PER_PASS // widest, 1)]
            low, high = (np.array([getattr(self.nodes[n], side) for n in chosen]) for side in ("low", "high"))
            bins = NodeBins.of(tree, np.array(chosen, np.int64), low, high, self._cuts)
            if not bins.size:
                continue
            counts = self.count(bins)
            self.passes += 1
            if not self.events:
                self.events = int(counts[: bins.bins[bins.bins > 0][0]].sum())
                if not self.events:
                    raise TuningError("there are no events to learn from", field="events")
            weights = counts.astype(np.float64)
            if len(self._points):
                each = weight_of_each(self.floor * self.events, len(self._points))
                weights += each * bins.counted(self._points)
            for s, n in enumerate(chosen):
                self._choose(self.nodes[n], weights, bins, s)

    def _choose(self, node: LevelNode, weights: Floats, bins: NodeBins, s: int) -> None:
        binned = BinnedNode(node.low, node.high, bins.bins[s], bins.shift[s], bins.offset[s], weights)
        counted = int(np.argmax(binned.bins > 0))  # any dimension that has bins has all of the weight
        begin = binned.offset[counted]
        weight = weights[begin : begin + binned.bins[counted]].sum()
        cost = float(weight * met_by(node.boxes, self._boxes, self._scratch))
        self._cost = self._cost or cost
        patient = can_wait(cost, self._cost, self.leaves, self.bits - node.depth)
        gain, d, k = best_of(binned, node.boxes, self._boxes, patient, self._scratch)
        node.gain, node.dim, node.at = float(gain), int(d), int(k)

    def _tree(self) -> TreeSoFar:
        dim = np.array([max(node.dim, 0) for node in self.nodes], np.int64)
        cut = np.array([self._cuts[node.dim][node.at] if node.child else 0.0 for node in self.nodes])
        return TreeSoFar(dim, cut, np.array([node.child for node in self.nodes], np.int64))


def grow_by_levels(
    events: EventBatch,
    subscriptions: Sequence[Filter],
    bits: int,
    budget: Budget,
    *,
    spread: Spread = (),
    floor: float = FLOOR_SHARE,
    seed: int = 0,
    patient: bool = True,
) -> TreeIndex:
    """A tree grown level by level over events that are in this process."""
    sample = Sample.of(events, subscriptions)
    leaves = budget.meant if patient else 0
    growth = LevelGrowth(sample, bits, lambda bins: bins.counted(sample.points), floor, seed, leaves)
    return fitted(growth, budget, spread)[0]

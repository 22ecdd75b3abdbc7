"""Growing some parts of a tree anew, all at once: wherever in them a cut saves most, it is made next.

The rest of the tree is there from the beginning, so that the rules of the whole tree are counted on every switch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.evaluation.sample import Sample
from pleroma.index import Dz, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.learning.learner import SampleGrowth
from pleroma.learning.rule_counts import SplitSequence
from pleroma.learning.smoothing import WeightedPoints

Bounds = tuple[Floats, Floats]
"""The least and the largest coordinates of a node."""
LEAST_GROWTH = 16
"""A part is grown by at least so many splits at a time."""


class PartGrowth:
    """A tree that is grown below some of its nodes, none inside another. Its other splits come first and stay.

    `seen` are the points of the whole sample, `leaves` how many the whole tree is meant to have, or 0 as in
    `GrowthLimits`.
    """

    def __init__(
        self, index: TreeIndex, nodes: Sequence[Dz], sample: Sample, seen: WeightedPoints, leaves: int
    ) -> None:
        self.sample = sample
        self.bits = index.bits
        self._rest = SplitSequence.of(_pruned(index, nodes))
        self._numbers = [_number(self._rest, dz) for dz in nodes]
        at = index.tables.leaves_of(seen.points)
        inside = [_within(index, dz, sample, seen, at) for dz in nodes]
        costs = [points.weight.sum() * len(np.unique(boxes.owner)) for boxes, points, _ in inside]
        self._shares = [float(cost / max(sum(costs), 1e-9)) for cost in costs]
        free = max(leaves - self._rest.made, 0)
        self._parts = [
            SampleGrowth(boxes, points, index.bits - dz.length, int(free * share), bounds)
            for dz, share, (boxes, points, bounds) in zip(nodes, self._shares, inside, strict=True)
        ]
        self._asked = [0] * len(nodes)
        """By part: how many splits it has been grown to. It has fewer if no others gain anything."""

    @property
    def kept(self) -> int:
        """The number of splits outside of the parts."""
        return self._rest.made

    def grow(self, splits: int) -> None:
        """Grow every part until it has a split that is not among the best, or no more that gain anything."""
        room = splits - self.kept
        short = [number for number, asked in enumerate(self._asked) if asked < room]
        while short:
            for number in short:
                least = int(room * self._shares[number]) + LEAST_GROWTH
                self._asked[number] = min(max(2 * self._asked[number], least), room)
                self._parts[number].grow(self._asked[number])
            taken = self._taken(room)
            short = [
                number
                for number, (asked, best) in enumerate(zip(self._asked, taken, strict=True))
                if len(best) == asked < room and (best >= 0).all()
            ]

    def splits(self, max_splits: int) -> SplitSequence:
        """Those outside of the parts, which `max_splits` has to include, and the best of all parts."""
        taken = self._taken(max_splits - self.kept)
        size = 2 * (self.kept + sum(int((best >= 0).sum()) for best in taken)) + 1
        made = SplitSequence(np.full(size, LEAF, np.int64), np.zeros(size), np.zeros(size, np.int64))
        for mine, its in zip(made, self._rest, strict=True):
            mine[: len(its)] = its
        for number, part, best in zip(self._numbers, self._parts, taken, strict=True):
            _add(made, part.splits(len(best)), number, best)
        return made

    def _taken(self, room: int) -> list[Ints]:
        """By part and split of it: its place among the splits of the tree, -1 if it is not among the `room` best.

        The next split is always the one that saves most of the parts' next ones. That is the order of the least that
        the splits of a part have saved so far.
        """
        least = [np.minimum.accumulate(part.gains()) for part in self._parts]
        order = np.argsort(-np.concatenate(least), kind="stable")[:room]
        place = np.full(sum(map(len, least)), -1, np.int64)
        place[order] = self.kept + np.arange(len(order))
        return np.split(place, np.cumsum([len(each) for each in least])[:-1])


def _add(made: SplitSequence, part: SplitSequence, number: int, place: Ints) -> None:
    """Add the splits of a part to those of the tree. `number` is that of the part's root, `place` is by split of it."""
    cut = np.flatnonzero(part.child)
    split = part.child[cut] // 2
    cut, split = cut[place[split] >= 0], split[place[split] >= 0]
    here = np.full(len(cut), number)
    below = cut > 0
    above = cut[below] - 1
    here[below] = 2 * place[above // 2] + 1 + above % 2
    made.dims[here], made.cuts[here], made.child[here] = part.dims[cut], part.cuts[cut], 2 * place[split] + 1


def _pruned(index: TreeIndex, nodes: Sequence[Dz]) -> TreeIndex:
    for dz in nodes:
        index = index.regrown(dz, TreeIndex(index.schema, index.bits - dz.length))
    return index


def _number(splits: SplitSequence, dz: Dz) -> int:
    """The number of a node in the order of splits."""
    number = 0
    for place in range(dz.length - 1, -1, -1):
        number = int(splits.child[number]) + (dz >> place & 1)
    return number


def _within(
    index: TreeIndex, dz: Dz, sample: Sample, seen: WeightedPoints, at: Ints
) -> tuple[Sample, WeightedPoints, Bounds]:
    """The boxes that reach into a node and the points in it, and its bounds. `at` has the leaf of each point."""
    node, boxes = 0, np.ones(sample.boxes, np.bool_)
    for place in range(dz.length - 1, -1, -1):
        d, cut, above = index.dimensions[node], index.layout.cuts[node], dz >> place & 1
        boxes &= sample.last[:, d] >= cut if above else sample.first[:, d] < cut
        node = index.layout.right[node] if above else node + 1
    inside = (at >= node) & (at < index.layout.end[node])
    sides = index.extent(dz)
    low, high = np.array([sides[d] for d in range(len(sample.schema))], np.float64).T
    return sample.boxes_alone(boxes), WeightedPoints(seen.points[inside], seen.weight[inside]), (low, high)

"""Where a tree has aged: by each of its nodes, what a tree learned anew does better there.

What events are delivered less often by the other tree shows where it is better, if the other was not learned from these
events: it always looks better on those, everywhere. How many leaves the other spends in a node shows where rules are
missing and where they can be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import load_of
from pleroma.index import TreeIndex
from pleroma.learning.subtree_choice import lightest_subtrees

LEAF_PRICES = (0.0, *(2.0**power for power in range(-6, 9)))
"""What a leaf may be worth, in deliveries that the other tree saves by leaf on average: each of these is tried."""


class AgedNodes(NamedTuple):
    nodes: Ints
    """Numbers of nodes, none inside another."""
    traffic: float
    """The share of events in them."""
    leaves: float
    """The share of the leaves that somebody wants in them."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeAgeing:
    """By node of a tree: what there is in it, and what another tree does with that."""

    index: TreeIndex
    events: Floats
    saved: Floats
    """The deliveries that the other tree saves."""
    leaves: Floats
    """The leaves that somebody wants."""
    reaching: Floats
    """The leaves of the other tree that reach into the node, as far as events and somebody's boxes are in them."""

    @classmethod
    def of(cls, index: TreeIndex, other: TreeIndex, sample: Sample, judging: Sample) -> TreeAgeing:
        """The other tree is learned from the events of `sample`. What it saves is counted on those of `judging`."""
        size = len(index.dimensions)
        events, met = load_of(index, judging)
        its_met = load_of(other, judging)[1]
        mine, its = (tree.tables.leaves_of(judging.points) for tree in (index, other))
        saved = events * met - np.bincount(mine, its_met[its], size)
        mine, its = (tree.tables.leaves_of(sample.points) for tree in (index, other))
        wanted = its_met[its] > 0
        pairs = np.unique(its[wanted] * size + mine[wanted])
        reaching = _leaves_reaching(pairs // size, pairs % size, index.tables.parent, index.tables.depth)
        counts = (np.bincount(mine, minlength=size), saved, met > 0, reaching)
        return cls(index, *(_below(index, each.astype(np.float64)) for each in counts))

    def nodes(self, held: float, share: float, spare: int, max_nodes: int) -> AgedNodes | None:
        """The lightest nodes that hold so much of what the other tree saves, and leaves to make up for it.

        They have, with the `spare` ones, at least this share of the leaves that the other tree has in them. Nodes are
        the lighter, the fewer events and leaves they have.
        """
        missing = share * self.reaching - self.leaves
        weight = self.events / max(self.events[0], 1) + self.leaves / max(self.leaves[0], 1)
        can_grow = self.index.tables.depth < self.index.bits

        def enough(nodes: Ints) -> bool:
            return bool(self.saved[nodes].sum() >= held * self.saved[0] and missing[nodes].sum() <= spare)

        best = None
        for times in LEAF_PRICES:
            price = times * self.saved[0] / max(self.leaves[0], 1)
            worth = np.where(can_grow, self.saved - price * missing, -np.inf)
            found = lightest_subtrees(self.index, worth, weight, max_nodes, enough)
            if found is not None and (best is None or weight[found.nodes].sum() < weight[best].sum()):
                best = found.nodes
        if best is None:
            return None
        shares = (float(each[best].sum() / max(each[0], 1)) for each in (self.events, self.leaves))
        return AgedNodes(best, *shares)


def _below(index: TreeIndex, by_leaf: Floats) -> Floats:
    """By node, the sum over its subtree."""
    until = np.concatenate([[0.0], np.cumsum(by_leaf)])
    return np.asarray(until[index.tables.end] - until[:-1])


@compiled
def _leaves_reaching(other: Ints, leaf: Ints, parent: Ints, depth: Ints) -> Floats:
    """Numbers whose sum over a subtree is how many leaves of another tree reach into it.

    `other` and `leaf` are the pairs of leaves that have events in common, sorted. A leaf of the other tree counts 1 at
    each leaf that it reaches and -1 where the ways to two of them in turn meet, so that it counts once in any subtree.
    """
    found = np.zeros(parent.shape[0])
    for i in range(other.shape[0]):
        found[leaf[i]] += 1
        if i > 0 and other[i - 1] == other[i]:
            low, high = leaf[i - 1], leaf[i]
            while low != high:
                if depth[low] >= depth[high]:
                    low = parent[low]
                else:
                    high = parent[high]
            found[low] -= 1
    return found

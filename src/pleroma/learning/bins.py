"""Events of many nodes at once, counted by node, dimension and bin: all that growing a tree asks of the traffic.

The candidate cuts of a node, along a dimension, are put into at most `MAX_BINS` bins as `growth` does it. Counts are
whole numbers, so that parts of the traffic, counted apart, add up to the same, and they say nothing of single events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.learning.cuts import MAX_BINS


@dataclass(frozen=True, slots=True, eq=False)
class TreeSoFar:
    """The splits so far, by node. The upper child of a node follows its lower one, at `child`; 0: it has none."""

    dim: Ints
    cut: Floats
    child: Ints


@dataclass(frozen=True, slots=True, eq=False)
class NodeBins:
    """What is to be counted; it travels to wherever the events are.

    `slot[node]` is the row in `low`, `shift`, `bins` and `offset` of a node whose events count, or -1. Bin j of row s
    and dimension d has events between the candidate cuts `low[s, d] + (j << shift) - 1` and those of the next bin, and
    is counted at `offset[s, d] + j`.
    """

    shape: TreeSoFar
    slot: Ints
    low: Ints
    shift: Ints
    bins: Ints
    offset: Ints
    cuts: Floats
    begin: Ints
    """Where the candidate cuts of each dimension begin in `cuts`."""
    size: int

    @classmethod
    def of(cls, shape: TreeSoFar, nodes: Ints, low: Ints, high: Ints, cuts: Sequence[Floats]) -> NodeBins:
        """For these nodes, which have candidate cuts from number `low` up to `high` along each dimension."""
        slot = np.full(len(shape.child), -1, np.int64)
        slot[nodes] = np.arange(len(nodes))
        span = high - low
        shift = np.zeros_like(span)
        while (wide := span >> shift >= MAX_BINS).any():
            shift += wide
        bins = (span >> shift) + 1
        bins[span == 0] = 0  # nothing to choose
        offset = np.concatenate([[0], np.cumsum(bins.ravel())])
        begin = np.concatenate([[0], np.cumsum([len(each) for each in cuts])]).astype(np.int64)
        flat = np.concatenate([*cuts, np.empty(0)])
        return cls(shape, slot, low, shift, bins, offset[:-1].reshape(bins.shape), flat, begin[:-1], int(offset[-1]))

    def counted(self, points: Floats, found: Ints | None = None) -> Ints:
        """By bin, how many of these there are, besides those that were `found` before."""
        found = np.zeros(self.size, np.int64) if found is None else found
        points = np.ascontiguousarray(points, np.float64)
        shape = self.shape
        tree = shape.dim, shape.cut, shape.child, self.slot
        _count(points, *tree, self.low, self.shift, self.bins, self.offset, self.cuts, self.begin, found)
        return found


@compiled
def _count(
    points: Floats,
    dim: Ints,
    cut: Floats,
    child: Ints,
    slot: Ints,
    low: Ints,
    shift: Ints,
    bins: Ints,
    offset: Ints,
    cuts: Floats,
    begin: Ints,
    found: Ints,
) -> None:
    for event in range(points.shape[0]):
        node = np.int64(0)
        while child[node]:
            node = child[node] + (1 if points[event, dim[node]] >= cut[node] else 0)
        s = slot[node]
        if s < 0:
            continue
        for d in range(points.shape[1]):
            if bins[s, d]:
                at = _bin(points[event, d], cuts, begin[d] + low[s, d] - 1, shift[s, d], bins[s, d])
                found[offset[s, d] + at] += 1


@compiled
def _bin(value: float, cuts: Floats, before: Int, shift: Int, bins: Int) -> Int:
    """How many bins end at or below a value."""
    least, most = np.int64(0), bins - 1
    while least < most:
        middle = (least + most) >> 1
        if value >= cuts[before + ((middle + 1) << shift)]:
            least = middle + 1
        else:
            most = middle
    return least

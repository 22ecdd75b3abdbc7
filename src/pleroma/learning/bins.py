"""Events of many nodes at once, counted by node, dimension and bin: all that growing a tree asks of the traffic.

The candidate cuts of a node, along a dimension, are put into at most `MAX_BINS` bins, as `growth` does it. Counts are
whole numbers, so that the counts of parts of the traffic add up to the same, and they reveal no single event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.learning.cuts import MAX_BINS


class TreeSoFar(NamedTuple):
    """The splits of a tree that is being grown, by node. Its upper child follows the lower one."""

    dim: Ints
    cut: Floats
    child: Ints
    """The lower child, 0 for a leaf."""


class NodeBins(NamedTuple):
    """The bins in which the events of some nodes are to be counted. It travels to wherever the events are.

    `slot[node]` is the row in `low`, `shift`, `bins` and `offset` of a node whose events count, or -1. Bin j of row s
    and dimension d has events between the candidate cuts `low[s, d] + (j << shift) - 1` and those of the next bin, and
    is counted at `offset[s, d] + j`.
    """

    tree: TreeSoFar
    slot: Ints
    low: Ints
    shift: Ints
    bins: Ints
    offset: Ints
    cuts: Floats
    """The candidate cuts of all dimensions, one dimension after the other."""
    begin: Ints
    """By dimension: where its candidate cuts begin in `cuts`."""
    size: int
    """The number of bins in all."""

    @classmethod
    def of(cls, tree: TreeSoFar, nodes: Ints, low: Ints, high: Ints, cuts: Sequence[Floats]) -> NodeBins:
        """Bins for some nodes, which have candidate cuts from number `low` up to `high` along each dimension."""
        slot = np.full(len(tree.child), -1, np.int64)
        slot[nodes] = np.arange(len(nodes))
        span = high - low
        shift = np.zeros_like(span)
        while (wide := span >> shift >= MAX_BINS).any():
            shift += wide
        bins = (span >> shift) + 1
        bins[span == 0] = 0  # there is no cut to choose
        offset = np.concatenate([[0], np.cumsum(bins.ravel())])
        begin = np.concatenate([[0], np.cumsum([len(each) for each in cuts])]).astype(np.int64)
        flat = np.concatenate([*cuts, np.empty(0)])
        return cls(tree, slot, low, shift, bins, offset[:-1].reshape(bins.shape), flat, begin[:-1], int(offset[-1]))

    def counted(self, points: Floats, counts: Ints | None = None) -> Ints:
        """By bin, how many of the points are in it; added to `counts`, where these are given."""
        counts = np.zeros(self.size, np.int64) if counts is None else counts
        _count(np.ascontiguousarray(points, np.float64), self, counts)
        return counts


@compiled
def _count(points: Floats, bins: NodeBins, counts: Ints) -> None:
    (dim, cut, child), slot, low, shift, sizes, offset, cuts, begin, _ = bins
    for event in range(points.shape[0]):
        node = np.int64(0)
        while child[node]:
            node = child[node] + (1 if points[event, dim[node]] >= cut[node] else 0)
        s = slot[node]
        if s < 0:
            continue
        for d in range(points.shape[1]):
            if sizes[s, d]:
                at = _bin(points[event, d], cuts, begin[d] + low[s, d] - 1, shift[s, d], sizes[s, d])
                counts[offset[s, d] + at] += 1


@compiled
def _bin(value: float, cuts: Floats, before: Int, shift: Int, bins: Int) -> Int:
    """The number of bins that end at or below a value, found by halving."""
    least, most = np.int64(0), bins - 1
    while least < most:
        middle = (least + most) >> 1
        if value >= cuts[before + ((middle + 1) << shift)]:
            least = middle + 1
        else:
            most = middle
    return least

"""The covers of many subscriptions by a tree, under any limit on members, after one walk of the boxes.

The nodes that a subscription fills, none inside another, are its cover where no limit is exceeded. They are found once;
each limit then coarsens only the covers that have more members, as `TreeIndex.cover` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Int, Ints
from pleroma.errors import ContentError, PlanError
from pleroma.evaluation.batch_covers import BatchCovers
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import FilledNodes, filled_nodes
from pleroma.index import TreeIndex
from pleroma.index.coarsening_kernels import fewest
from pleroma.index.dz_rows import DzRows, joined
from pleroma.index.tree_codes import refined
from pleroma.index.tree_walk import LEAF, enough


@dataclass(frozen=True, slots=True, eq=False)
class TreeCovers:
    """The covers of a sample's owners by a tree. The boxes of an owner stand together."""

    index: TreeIndex
    filled: FilledNodes
    cells: DzRows
    """By node of the tree: its cell."""

    @classmethod
    def of(cls, index: TreeIndex, sample: Sample) -> TreeCovers:
        if index.schema != sample.schema:
            raise ContentError(f"the filters are of schema {sample.schema.name!r}, the index of {index.schema.name!r}")
        tables = index.tables
        cells = np.zeros((len(tables.dims), 2), np.uint64)
        cells[:, : tables.words.shape[1]] = tables.words
        cells[:, 1] |= tables.depth.astype(np.uint64)
        return cls(index, filled_nodes(index, sample), cells)

    @property
    def most(self) -> int:
        """The members of the largest cover, without any limit."""
        return int(np.diff(self.filled.first).max(initial=0))

    def within(self, max_members: int | None) -> BatchCovers:
        """The covers of at most so many members each."""
        if max_members is not None and max_members < 1:
            raise PlanError("a cover needs at least one member", value=max_members)
        if max_members is None or self.most <= max_members:
            return BatchCovers(self.cells[self.filled.nodes], self.filled.first)
        tables = self.index.tables
        shape = _TreeShape(tables.dims, tables.right, tables.end, tables.parent, tables.depth)
        limits = _Limits(self.index.bits, max_members, enough(max_members, len(tables.dims)))
        return BatchCovers(*_coarsened(shape, self.cells, self.filled, limits))


class _TreeShape(NamedTuple):
    """The nodes of a tree in preorder, as in `TreeTables`."""

    dims: Ints
    right: Ints
    end: Ints
    parent: Ints
    depth: Ints


class _Limits(NamedTuple):
    length: int
    members: int
    enough: int
    """To how many nodes a cover is refined before the best members are kept."""


@compiled
def _coarsened(shape: _TreeShape, cells: DzRows, filled: FilledNodes, limits: _Limits) -> tuple[DzRows, Ints]:
    """The covers of all owners as rows, and where those of each owner begin."""
    nodes, first = filled
    rows = np.empty((nodes.shape[0], 2), np.uint64)
    begins = np.zeros_like(first)
    counts = np.zeros(shape.dims.shape[0], np.int64)
    count = 0
    for owner in range(first.shape[0] - 1):
        mine = nodes[first[owner] : first[owner + 1]]
        if mine.shape[0] > limits.members:
            mine = _coarser(shape, mine, counts, limits)
        begin = count
        for node in mine:
            rows[count] = cells[node]
            count += 1
        count = joined(rows, begin, count)
        begins[owner + 1] = count
    return rows[:count].copy(), begins


@compiled
def _coarser(shape: _TreeShape, filled: Ints, counts: Ints, limits: _Limits) -> Ints:
    """At most as many nodes as allowed, in preorder, that have the filled ones in them. `counts` has zeros only."""
    _add_leaves(shape, filled, counts, 1)
    nodes, child = refined(shape.dims, shape.right, shape.end, shape.depth, counts, limits.length, limits.enough)
    _add_leaves(shape, filled, counts, -1)
    places: Ints = np.array(nodes)
    parts: Ints = np.array(child)
    if (places.shape[0] + 1) // 2 <= limits.members:
        kept = np.sort(places[parts == 0])
    else:
        sizes = ((shape.end[places] - places + 1) // 2).astype(np.float64)
        kept = places[fewest(sizes, parts, limits.members)]
    return kept


@compiled
def _add_leaves(shape: _TreeShape, filled: Ints, counts: Ints, sign: Int) -> None:
    """Count the leaves of filled nodes at all nodes around them, and at their halves; nothing looks further down."""
    dims, right, end, parent, _ = shape
    for node in filled:
        leaves = (end[node] - node + 1) // 2
        above = node
        while above > 0:
            counts[above] += sign * leaves
            above = parent[above]
        counts[0] += sign * leaves
        if dims[node] != LEAF:
            for half in (node + 1, right[node]):
                counts[half] += sign * ((end[half] - half + 1) // 2)

"""A tree laid out for the kernels, and batches through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Words
from pleroma.errors import DomainError
from pleroma.index import tree_walk
from pleroma.index.coarsening_kernels import fewest
from pleroma.index.codes import WORD_BITS, Codes

if TYPE_CHECKING:
    from pleroma.index.tree_index import Bounds, TreeIndex

meet = compiled(tree_walk.meet)
merged = compiled(tree_walk.merged)
refined = compiled(tree_walk.refined)


@dataclass(frozen=True, slots=True, eq=False)
class TreeTables:
    names: tuple[str, ...]
    bits: int
    dims: Ints
    cuts: Floats
    right: Ints
    end: Ints
    parent: Ints
    depth: Ints
    words: Words
    """By node, its code left-aligned in one or two words."""

    @classmethod
    def of(cls, tree: TreeIndex) -> TreeTables:
        layout = tree.layout
        room = WORD_BITS * max(1, -(-tree.bits // WORD_BITS))
        aligned = [(code ^ 1 << depth) << room - depth for code, depth in zip(layout.codes, layout.depth, strict=True)]
        shifts = range(room - WORD_BITS, -1, -WORD_BITS)
        return cls(
            names=tree.schema.names,
            bits=tree.bits,
            dims=np.array(tree.dimensions, np.int64),
            cuts=np.array(layout.cuts, np.float64),
            right=np.array(layout.right, np.int64),
            end=np.array(layout.end, np.int64),
            parent=np.array(layout.parent, np.int64),
            depth=np.array(layout.depth, np.int64),
            words=np.array([[code >> s & 2**WORD_BITS - 1 for s in shifts] for code in aligned], np.uint64),
        )

    def encode(self, points: Floats) -> Codes:
        return Codes(self.words[self.leaves_of(points)], self.bits)

    def leaves_of(self, points: Floats) -> Ints:
        """The leaf of every event, by number of its node."""
        if points.ndim != 2 or points.shape[1] != len(self.names):
            raise DomainError(f"a batch has {len(self.names)} columns, not shape {points.shape}", field="points")
        points = np.ascontiguousarray(points, np.float64)
        found = np.empty(len(points), np.int64)
        if not _find(points, self.dims, self.cuts, self.right, found):
            row, d = np.argwhere(~np.isfinite(points))[0].tolist()
            value = float(points[row, d])
            raise DomainError(f"{value} in row {row} is no point", field=self.names[d], value=value)
        return found

    def cover_nodes(self, boxes: Sequence[Bounds], length: int, max_members: int | None) -> list[int]:
        """The nodes that enclose these boxes: at most `length` deep, and at most `max_members` of them."""
        met = np.zeros(len(self.dims), np.uint8)
        for first, last in boxes:
            meet(self.dims, self.cuts, self.right, np.array(first, np.float64), np.array(last, np.float64), met)
        if length == self.bits:
            nodes = merged(self.dims, self.parent, met)
            if max_members is None or len(nodes) <= max_members:
                return nodes
        counts = counted(self.dims, self.right, met)
        limit = tree_walk.enough(max_members, len(self.dims))
        nodes, child = refined(self.dims, self.right, self.end, self.depth, counts, length, limit)
        if max_members is None or (len(nodes) + 1) // 2 <= max_members:
            return [node for node, parts in zip(nodes, child, strict=True) if not parts]
        listed = np.array(nodes, np.int64)
        sizes = ((self.end[listed] - listed + 1) // 2).astype(np.float64)
        return [int(listed[place]) for place in fewest(sizes, np.array(child, np.int64), max_members)]


@compiled
def _find(points: Floats, dims: Ints, cuts: Floats, right: Ints, found: Ints) -> bool:
    total = 0.0
    for event in range(points.shape[0]):
        for d in range(points.shape[1]):
            total += points[event, d] - points[event, d]
        node = np.int64(0)
        d = dims[0]
        while d >= 0:
            node = right[node] if points[event, d] >= cuts[node] else node + 1
            d = dims[node]
        found[event] = node
    return total == 0.0


@compiled
def counted(dims: Ints, right: Ints, met: NDArray[np.uint8]) -> Ints:
    """The marked leaves below each node."""
    counts = met.astype(np.int64)
    for node in range(dims.shape[0] - 1, -1, -1):
        if dims[node] >= 0:
            counts[node] = counts[node + 1] + counts[right[node]]
    return counts

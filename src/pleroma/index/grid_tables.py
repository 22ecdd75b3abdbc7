"""A grid laid out for the kernels: everything about its axes in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pleroma.arrays.types import Floats, Ints, Words
from pleroma.errors import DomainError
from pleroma.index.codes import WORD_BITS, Codes
from pleroma.index.cover_kernels import HALF_CODE_BITS, BitOrder, Boxes, cover
from pleroma.index.dzset import DzSet
from pleroma.index.grid_kernels import SPREAD_BITS, GridAxes, encode

if TYPE_CHECKING:
    from pleroma.index.grid_index import GridIndex

NO_LIMIT = 2**60
"""Members that no cover has; kernels are given no larger limit, since they reckon with multiples of it."""


@dataclass(frozen=True, slots=True)
class GridTables:
    columns: int
    bits: int
    axes: GridAxes
    tables: tuple[Words, ...]
    """By word of the code, what `encode` spreads cell numbers with."""
    bit_order: BitOrder

    @classmethod
    def of(cls, grid: GridIndex) -> GridTables:
        dims = list(grid.axes)
        axes = list(grid.axes.values())
        order = np.array([dims.index(d) for d in grid.order], np.int64)
        used = np.zeros((grid.bits + 1, len(axes)), np.int64)
        for depth, j in enumerate(order):
            used[depth + 1] = used[depth]
            used[depth + 1, j] += 1
        chunks = [-(-axis.bits // SPREAD_BITS) for axis in axes]
        words = max(1, -(-grid.bits // WORD_BITS))
        return cls(
            columns=len(grid.schema),
            bits=grid.bits,
            axes=GridAxes(
                dims=np.array(dims, np.int64),
                low=np.array([axis.low for axis in axes], np.float64),
                scale=np.array([axis.scale for axis in axes], np.float64),
                top=np.array([(1 << axis.bits) - 1 for axis in axes], np.int64),
                listed=np.cumsum([0, *(len(axis.boundaries) for axis in axes)], dtype=np.int64),
                boundaries=np.array([b for axis in axes for b in axis.boundaries], np.float64),
                first_table=np.cumsum([0, *chunks], dtype=np.int64),
            ),
            tables=tuple(_spread(order, chunks, word) for word in range(words)),
            bit_order=BitOrder(
                order, used, np.array([axis.bits for axis in axes], np.int64), np.exp2(-np.arange(grid.bits + 1.0))
            ),
        )

    def encode(self, points: Floats) -> Codes | None:
        """The codes, or None where a coordinate is not a finite number."""
        if points.ndim != 2 or points.shape[1] != self.columns:
            raise DomainError(f"a batch has {self.columns} columns, not shape {points.shape}", field="points")
        points = np.ascontiguousarray(points, np.float64)
        words = np.zeros((len(self.tables), len(points)), np.uint64)
        sane = [encode(points, self.axes, table, out) for table, out in zip(self.tables, words, strict=True)]
        return Codes(words.T, self.bits) if all(sane) else None

    def cover(self, boxes: list[list[tuple[int, int]]], max_length: int, max_members: int | None) -> DzSet:
        """The cover of boxes that are given as their first and last cell on each axis."""
        low, high = np.array(boxes, np.int64).transpose(2, 0, 1).copy()
        if max_length < self.bits:  # what this length cannot tell apart belongs to the boxes
            room = self.bit_order.bits - self.bit_order.used[max_length]
            low, high = low >> room << room, high | (1 << room) - 1
        rows = cover(self.bit_order, Boxes(low, high), max_length, kernel_limit(max_members))
        return DzSet.of_cells([high_bits << HALF_CODE_BITS | low_bits for high_bits, low_bits in rows.tolist()])


def kernel_limit(max_members: int | None) -> int:
    return NO_LIMIT if max_members is None else min(max_members, NO_LIMIT)


def _spread(order: Ints, chunks: list[int], word: int) -> Words:
    """For each axis and each 8 bits of its cell number: where those bits stand in one word of the code."""
    tables = np.zeros((sum(chunks), 1 << SPREAD_BITS), np.uint64)
    values = np.arange(1 << SPREAD_BITS, dtype=np.uint64)
    first = np.cumsum([0, *chunks])
    for j in range(len(chunks)):
        for significance, place in enumerate(np.flatnonzero(order == j)[::-1].tolist()):
            if place // WORD_BITS == word:
                chunk, bit = divmod(significance, SPREAD_BITS)
                shift = np.uint64(WORD_BITS - 1 - place % WORD_BITS)
                tables[first[j] + chunk] |= (values >> np.uint64(bit) & np.uint64(1)) << shift
    return tables

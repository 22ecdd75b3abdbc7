"""For narrow constraints over many attributes: each subscription is filed once, under the constraint that fewest events
satisfy, its pivot.

Along the pivot's attribute, cells are halved level by level (Zhao and Wu 2011, III-A), and the subscription stands at
the deepest level where at most two cells hold its range. The entry there carries the next most selective constraint,
coarsely, so that almost all candidates are refused without a look at the table; what is left is checked exactly. Where
TAMA counts every satisfied constraint, this looks at one constraint in as many as a subscription has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Ints32, Marks, Words, Words16
from pleroma.matching.boundaries import boundaries, spans
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.row_kernels import ConstraintRows, EventRun, below, clear, holds, lay_out, with_room
from pleroma.matching.structure import MatchedRows

COARSE_BITS = 8
"""Bits of the cells that an entry carries of its second constraint."""
MAX_DEPTH = 12
DEPTH_SAMPLE_ROWS = 4096


class PivotArrays(NamedTuple):
    """Node `2**level + cell` of attribute `a` has the entries from `first[a << depth + 1 | node]` on.

    An entry is a word: the row (32 bits), the second attribute (16), and its first and last coarse cell.
    """

    grid: Floats
    levels: Ints
    """For each attribute a bit for every level at which something is filed."""
    first: Ints32
    entries: Words
    always: Ints32
    """The rows without constraints."""


@dataclass(frozen=True, slots=True, eq=False)
class Pivots:
    name: ClassVar[str] = "pivots"

    table: ConstraintTable
    arrays: PivotArrays

    @classmethod
    def build(cls, table: ConstraintTable) -> Self:
        width = table.width
        depth = _depth(table)
        grid = boundaries(table.attribute, table.low, table.high, width, 1 << depth)
        begin, end = spans(table.attribute, table.low, table.high, grid)
        popularity = np.bincount(table.attribute, minlength=width) / max(table.constraints, 1)
        pivot, second = _two_most_selective(table.first, table.attribute, begin, end, popularity)
        filed = _file(table.attribute, begin, end, pivot, second, width, depth)
        return cls(table, PivotArrays(grid, *filed, table.unconstrained))

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(array.nbytes for array in self.arrays)

    def search(self, events: Occurrences, begin: int, end: int, dead: Marks) -> MatchedRows:
        return MatchedRows(*_search(self.table.rows(dead), self.arrays[:], events.run(begin, end)))


def _depth(table: ConstraintTable) -> int:
    """Levels enough for a typical pivot to fill a cell of the last; more would only take room."""
    sample = table.take(np.arange(0, len(table), max(1, len(table) // DEPTH_SAMPLE_ROWS)))
    starts = sample.first[:-1][np.diff(sample.first) > 0]
    if not starts.size:
        return COARSE_BITS
    grid = boundaries(sample.attribute, sample.low, sample.high, sample.width, 1 << MAX_DEPTH)
    begin, end = spans(sample.attribute, sample.low, sample.high, grid)
    used = np.isfinite(grid).sum(axis=1) + 1
    share = (end.astype(np.float64) - begin + 1.0) / used[sample.attribute]
    typical = float(np.median(np.minimum.reduceat(share, starts)))
    return int(min(max(np.ceil(-np.log2(min(typical, 1.0))), COARSE_BITS), MAX_DEPTH))


@compiled
def _two_most_selective(
    first: Ints, attribute: Ints32, begin: Words16, end: Words16, popularity: Floats
) -> tuple[Ints, Ints]:
    """By row, the constraint that fewest events satisfy and the next; twice the same if there is one, -1 if none."""
    rows = first.shape[0] - 1
    pivot, second = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    for row in range(rows):
        best, next_best = np.inf, np.inf
        for k in range(first[row], first[row + 1]):
            score = (np.float64(end[k]) - np.float64(begin[k]) + 1.0) * popularity[attribute[k]]
            if score < best:
                second[row], next_best = pivot[row], best
                pivot[row], best = k, score
            elif score < next_best:
                second[row], next_best = k, score
        if next_best == np.inf:
            second[row] = pivot[row]
    return pivot, second


@compiled
def _file(
    attribute: Ints32, begin: Words16, end: Words16, pivot: Ints, second: Ints, width: int, depth: int
) -> tuple[Ints, Ints32, Words]:
    """The levels in use, the places of the nodes' entries, and the entries."""
    levels = np.zeros(width, np.int64)
    counts = np.zeros((width << (depth + 1)) + 1, np.int32)
    entries = np.empty(0, np.uint64)
    for turn in range(2):
        if turn == 1:  # counts become places
            total = 0
            for i in range(counts.shape[0]):
                size = counts[i]
                counts[i] = total
                total += size
            entries = np.empty(total, np.uint64)
        for row in range(pivot.shape[0]):
            k, s = pivot[row], second[row]
            if k < 0:
                continue
            a, from_cell, to_cell = np.int64(attribute[k]), np.int64(begin[k]), np.int64(end[k])
            shift = 0
            while (to_cell >> shift) - (from_cell >> shift) > 1:
                shift += 1
            level = depth - shift
            levels[a] |= 1 << level
            word = (
                np.uint64(row) << np.uint64(32)
                | np.uint64(attribute[s]) << np.uint64(16)
                | np.uint64(begin[s] >> (depth - COARSE_BITS)) << np.uint64(8)
                | np.uint64(end[s] >> (depth - COARSE_BITS))
            )
            for cell in range(from_cell >> shift, (to_cell >> shift) + 1):
                node = a << (depth + 1) | ((1 << level) + cell)
                if turn == 1:
                    entries[counts[node]] = word
                counts[node] += 1
    places = np.empty_like(counts)
    places[0] = 0
    places[1:] = counts[:-1]  # each count has moved on to where the next begins
    return levels, places, entries


@compiled
def _search(
    table: ConstraintRows, arrays: tuple[Floats, Ints, Ints32, Words, Ints32], events: EventRun
) -> tuple[Ints32, Ints]:
    first, attribute, low, high, dead = table
    event_first, event_attribute, event_value, begin, end = events
    grid, levels, places, entries, always = arrays
    width = levels.shape[0]
    depth = 0
    while (1 << depth) <= grid.shape[1]:
        depth += 1
    values = np.full(width, np.nan)
    cells = np.zeros(width, np.int64)
    coarse = np.full(width, -1, np.int64)
    found = np.empty(64, np.int32)
    count = 0
    ends = np.empty(end - begin, np.int64)
    for e in range(begin, end):
        lay_out(values, event_attribute, event_value, event_first[e], event_first[e + 1])
        for k in range(event_first[e], event_first[e + 1]):
            a = np.int64(event_attribute[k])
            if a < width:
                cells[a] = below(grid[a], values[a])
                coarse[a] = cells[a] >> (depth - COARSE_BITS)
        for row in always:
            if not dead[row]:
                found = with_room(found, count)
                found[count] = row
                count += 1
        for k in range(event_first[e], event_first[e + 1]):
            a = np.int64(event_attribute[k])
            if a >= width:
                continue
            level = 0
            while levels[a] >> level:
                if levels[a] >> level & 1:
                    node = a << (depth + 1) | ((1 << level) + (cells[a] >> (depth - level)))
                    for i in range(places[node], places[node + 1]):
                        if _may_hold(entries[i], coarse):
                            row = np.int64(entries[i] >> np.uint64(32))
                            if not dead[row] and holds(values, first, attribute, low, high, row):
                                found = with_room(found, count)
                                found[count] = row
                                count += 1
                level += 1
        clear(values, event_attribute, event_first[e], event_first[e + 1])
        for k in range(event_first[e], event_first[e + 1]):
            if event_attribute[k] < width:
                coarse[event_attribute[k]] = -1
        ends[e - begin] = count
    return found[:count], ends


@compiled
def _may_hold(entry: np.uint64, coarse: Ints) -> bool:
    """Whether the event's coarse cell is among those of the second constraint that an entry carries."""
    cell = coarse[np.int64(entry >> np.uint64(16) & np.uint64(0xFFFF))]
    return bool(np.int64(entry >> np.uint64(8) & np.uint64(255)) <= cell <= np.int64(entry & np.uint64(255)))

"""For wide constraints over few attributes: bit sets of the subscriptions that may want a value, and-ed.

Along each attribute there are a few dozen cells, and for each cell a bit for every subscription that wants something
in it or does not care. And-ing one set per attribute leaves little more than what matches, which is checked exactly,
so the cells need not be fine. Subscriptions that are alike are neighbours, so that most words of 64 become empty
together, and a bit set over words (one bit each: is anything left there?) says beforehand which are worth a look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Ints32, Marks, Words
from pleroma.index.codes import WORD_BITS
from pleroma.matching.boundaries import boundaries, spans
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.row_kernels import below, clear, holds, lay_out, with_room
from pleroma.matching.structure import MatchedRows

CELLS_PER_ATTRIBUTE = 32
LIKENESS_CONSTRAINTS = 5
"""How many constraints of a subscription decide who its neighbours are."""


@dataclass(frozen=True, slots=True, eq=False)
class BitSets:
    """Set `a * (cells + 1) + cell` of attribute `a`; the last of each attribute is for events that lack it."""

    name: ClassVar[str] = "bit-sets"

    table: ConstraintTable
    grid: Floats
    sets: Words
    summary: Words
    sizes: Ints
    """How many words of each set are not empty: the emptiest sets are and-ed first."""

    @classmethod
    def build(cls, table: ConstraintTable, cells: int = CELLS_PER_ATTRIBUTE) -> Self:
        width = max(table.width, 1)  # where nobody asks for anything, there is still a set of all
        grid = boundaries(table.attribute, table.low, table.high, width, cells)
        begin, end = spans(table.attribute, table.low, table.high, grid)
        rank = np.argsort(np.argsort(-np.bincount(table.attribute, minlength=width), kind="stable"))
        order = np.argsort(_likeness(table.first, table.attribute, begin, end, rank, cells), kind="stable")
        table = table.take(order)
        begin, end = spans(table.attribute, table.low, table.high, grid)
        sets, summary = _bit_sets(table.first, table.attribute, begin, end, width, cells)
        return cls(table, grid, sets, summary, np.bitwise_count(summary).sum(axis=1, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(array.nbytes for array in self.arrays().values())

    def search(self, events: Occurrences, begin: int, end: int, dead: Marks) -> MatchedRows:
        t = self.table
        rows, ends = _search(
            t.first, t.attribute, t.low, t.high, dead, self.grid, self.sets, self.summary, self.sizes,
            events.first, events.attribute, events.value, begin, end,
        )  # fmt: skip
        return MatchedRows(rows, ends)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in ("grid", "sets", "summary", "sizes")}


@compiled
def _likeness(
    first: Ints, attribute: Ints32, begin: NDArray[np.uint16], end: NDArray[np.uint16], rank: Ints, cells: int
) -> Words:
    """A number for each row: its constraints on the most constrained attributes, and roughly where they are."""
    rows = first.shape[0] - 1
    keys = np.empty(rows, np.uint64)
    for row in range(rows):
        key = np.uint64(0)
        last = np.int64(-1)
        for _ in range(LIKENESS_CONSTRAINTS):
            best, at = np.int64(rank.shape[0]), -1
            for k in range(first[row], first[row + 1]):
                if last < rank[attribute[k]] < best:
                    best, at = rank[attribute[k]], k
            place = np.int64(0)
            if at >= 0:
                place = (np.int64(begin[at]) + np.int64(end[at])) * 4 // cells
                last = best
            key = (
                key << np.uint64(12)
                | np.uint64(best if best < 511 else 511) << np.uint64(3)
                | np.uint64(min(int(place), 7))
            )
            if at < 0:
                last = np.int64(rank.shape[0])
        keys[row] = key
    return keys


@compiled
def _bit_sets(
    first: Ints, attribute: Ints32, begin: NDArray[np.uint16], end: NDArray[np.uint16], width: int, cells: int
) -> tuple[Words, Words]:
    rows = first.shape[0] - 1
    words = (rows + WORD_BITS - 1) // WORD_BITS
    sets = np.zeros((width * (cells + 1), words), np.uint64)
    summary = np.zeros((width * (cells + 1), (words + WORD_BITS - 1) // WORD_BITS), np.uint64)
    word = np.empty(width * (cells + 1), np.uint64)
    for w in range(words):
        size = min(rows - w * WORD_BITS, WORD_BITS)
        word[:] = ~np.uint64(0) >> np.uint64(WORD_BITS - size)
        for row in range(w * WORD_BITS, w * WORD_BITS + size):
            keep = ~(np.uint64(1) << np.uint64(row - w * WORD_BITS))
            for k in range(first[row], first[row + 1]):
                base = attribute[k] * (cells + 1)
                for cell in range(begin[k]):
                    word[base + cell] &= keep
                for cell in range(end[k] + 1, cells + 1):
                    word[base + cell] &= keep
        bit = np.uint64(1) << np.uint64(w % WORD_BITS)
        for i in range(word.shape[0]):
            sets[i, w] = word[i]
            if word[i]:
                summary[i, w // WORD_BITS] |= bit
    return sets, summary


@compiled
def lowest(word: np.uint64) -> int:
    """The number of the lowest bit that is set."""
    place = 0
    if word & np.uint64(0xFFFFFFFF) == 0:
        place += 32
        word >>= np.uint64(32)
    if word & np.uint64(0xFFFF) == 0:
        place += 16
        word >>= np.uint64(16)
    if word & np.uint64(0xFF) == 0:
        place += 8
        word >>= np.uint64(8)
    while word & np.uint64(1) == 0:
        place += 1
        word >>= np.uint64(1)
    return place


@compiled
def _search(
    first: Ints,
    attribute: Ints32,
    low: Floats,
    high: Floats,
    dead: Marks,
    grid: Floats,
    sets: Words,
    summary: Words,
    sizes: Ints,
    event_first: Ints,
    event_attribute: Ints32,
    event_value: Floats,
    begin: int,
    end: int,
) -> tuple[Ints32, Ints]:
    width = grid.shape[0]
    cells = grid.shape[1] + 1
    values = np.full(width, np.nan)
    chosen = np.empty(width, np.int64)
    found = np.empty(64, np.int32)
    count = 0
    ends = np.empty(end - begin, np.int64)
    left = np.empty(summary.shape[1], np.uint64)
    places = np.empty(sets.shape[1], np.int64)
    words = np.empty(sets.shape[1], np.uint64)
    one = np.uint64(1)
    for e in range(begin, end):
        lay_out(values, event_attribute, event_value, event_first[e], event_first[e + 1])
        for a in range(width):  # one set per attribute, the emptiest first
            cell = cells if np.isnan(values[a]) else below(grid[a], values[a])
            each = a * (cells + 1) + cell
            at = a
            while at > 0 and sizes[chosen[at - 1]] > sizes[each]:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = each
        left[:] = ~np.uint64(0)
        for j in range(width):
            row = summary[chosen[j]]
            for i in range(left.shape[0]):
                left[i] &= row[i]
        size = 0
        for i in range(left.shape[0]):
            some = left[i]
            while some:
                places[size] = i * WORD_BITS + lowest(some)
                words[size] = sets[chosen[0], places[size]]
                size += 1
                some &= some - one
        for j in range(1, width):  # set by set, so that many words are on their way from memory at a time
            row = sets[chosen[j]]
            kept = 0
            for i in range(size):
                word = words[i] & row[places[i]]
                places[kept] = places[i]
                words[kept] = word
                kept += word != 0
            size = kept
        for i in range(size):
            word = words[i]
            while word:
                candidate = places[i] * WORD_BITS + lowest(word)
                word &= word - one
                if not dead[candidate] and holds(values, first, attribute, low, high, candidate):
                    found = with_room(found, count)
                    found[count] = candidate
                    count += 1
        clear(values, event_attribute, event_first[e], event_first[e + 1])
        ends[e - begin] = count
    return found[:count], ends

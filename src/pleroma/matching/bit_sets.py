"""For wide constraints over few attributes: bit sets of the subscriptions that may want a value, and-ed.

Along each attribute there are a few dozen cells, and for each cell a bit for every subscription that wants something
in it or does not care. And-ing one set per attribute leaves little more than what matches, which is checked exactly,
so the cells need not be fine. Subscriptions that are alike are neighbours, so that most words of 64 become empty
together, and a bit set over words (one bit each: is anything left there?) says beforehand which are worth a look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Ints32, Marks, Words, Words16
from pleroma.index.codes import WORD_BITS
from pleroma.matching.boundaries import boundaries, spans
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.row_kernels import ConstraintRows, EventRun, below, clear, holds, lay_out, with_room
from pleroma.matching.structure import MatchedRows

CELLS_PER_ATTRIBUTE = 32
LIKENESS_CONSTRAINTS = 5
"""How many constraints of a subscription decide who its neighbours are."""


class SetArrays(NamedTuple):
    """Set `a * (cells + 1) + cell` of attribute `a`; the last of each attribute is for events that lack it."""

    grid: Floats
    sets: Words
    summary: Words
    """By set a bit for each word: whether it is not empty."""
    sizes: Ints
    """How many words of each set are not empty: the emptiest sets are and-ed first."""


@dataclass(frozen=True, slots=True, eq=False)
class BitSets:
    name: ClassVar[str] = "bit-sets"

    table: ConstraintTable
    arrays: SetArrays

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
        return cls(table, SetArrays(grid, sets, summary, np.bitwise_count(summary).sum(axis=1, dtype=np.int64)))

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(array.nbytes for array in self.arrays)

    def search(self, events: Occurrences, begin: int, end: int, dead: Marks) -> MatchedRows:
        return MatchedRows(*_search(self.table.rows(dead), self.arrays[:], events.run(begin, end)))


@compiled
def _likeness(first: Ints, attribute: Ints32, begin: Words16, end: Words16, rank: Ints, cells: int) -> Words:
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
    first: Ints, attribute: Ints32, begin: Words16, end: Words16, width: int, cells: int
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
def _search(table: ConstraintRows, arrays: tuple[Floats, Words, Words, Ints], events: EventRun) -> tuple[Ints32, Ints]:
    first, attribute, low, high, dead = table
    event_first, event_attribute, event_value, begin, end = events
    grid, sets, summary, sizes = arrays
    values = np.full(grid.shape[0], np.nan)
    chosen = np.empty(grid.shape[0], np.int64)
    found = np.empty(64, np.int32)
    count = 0
    ends = np.empty(end - begin, np.int64)
    left = np.empty(summary.shape[1], np.uint64)
    places = np.empty(sets.shape[1], np.int64)
    words = np.empty(sets.shape[1], np.uint64)
    for e in range(begin, end):
        lay_out(values, event_attribute, event_value, event_first[e], event_first[e + 1])
        _choose_sets(grid, sizes, values, chosen)
        _and_summaries(summary, chosen, left)
        for i in range(_and_sets(sets, chosen, left, places, words)):
            word = words[i]
            while word:
                row = places[i] * WORD_BITS + lowest(word)
                word &= word - np.uint64(1)
                if not dead[row] and holds(values, first, attribute, low, high, row):
                    found = with_room(found, count)
                    found[count] = row
                    count += 1
        clear(values, event_attribute, event_first[e], event_first[e + 1])
        ends[e - begin] = count
    return found[:count], ends


@compiled
def _choose_sets(grid: Floats, sizes: Ints, values: Floats, chosen: Ints) -> None:
    """The set of an event's cell for each attribute, the emptiest first."""
    cells = grid.shape[1] + 1
    for a in range(grid.shape[0]):
        cell = cells if np.isnan(values[a]) else below(grid[a], values[a])
        each = a * (cells + 1) + cell
        at = a
        while at > 0 and sizes[chosen[at - 1]] > sizes[each]:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = each


@compiled
def _and_summaries(summary: Words, chosen: Ints, left: Words) -> None:
    """A bit for each word that is empty in none of the chosen sets."""
    left[:] = ~np.uint64(0)
    for each in chosen:
        row = summary[each]
        for i in range(left.shape[0]):
            left[i] &= row[i]


@compiled
def _and_sets(sets: Words, chosen: Ints, left: Words, places: Ints, words: Words) -> int:
    """The chosen sets and-ed where `left` has a bit: words that are not empty, their places, and how many they are."""
    size = 0
    for i in range(left.shape[0]):
        some = left[i]
        while some:
            places[size] = i * WORD_BITS + lowest(some)
            words[size] = sets[chosen[0], places[size]]
            size += 1
            some &= some - np.uint64(1)
    for j in range(1, chosen.shape[0]):  # set by set, so that many words are on their way from memory at a time
        row = sets[chosen[j]]
        kept = 0
        for i in range(size):
            word = words[i] & row[places[i]]
            places[kept] = places[i]
            words[kept] = word
            kept += word != 0
        size = kept
    return size

"""Many dz as rows of two words, sorted: unions, what longer ones fill, and the events in each, a sweep at a time.

A row is what `DzSet.pack` writes: the first atom of the cell (64 bits, then 48) and its length in the last 16. In the
order of these rows a dz follows right after those that cover it, so what is inside a cell stands right behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Ints, Words
from pleroma.index.codes import Codes
from pleroma.index.dzset import DzSet

DzRows = Words
"""Rows of (first 64 bits, the other 48 with the length)."""
Word = Any
"""An unsigned one; what it is compared with has to be one as well."""
ONE_WORD_BITS = 56
"""Cells of so many bits and their lengths are told apart by one word, and sorted as one."""
_LENGTH = np.uint64(0xFFFF)
_BEHIND = np.uint64(16)
_ONE = np.uint64(1)


def packed(region: DzSet) -> DzRows:
    return np.frombuffer(region.pack(), ">u8").reshape(-1, 2).astype(np.uint64)


def ordered(cells: DzRows) -> DzRows:
    """The distinct ones, sorted."""
    if not len(cells):
        return cells
    if (cells[:, 1] & _LENGTH).max() <= ONE_WORD_BITS:
        words = np.sort(cells[:, 0] | cells[:, 1])
        kept = words[np.concatenate([[True], words[1:] != words[:-1]])]
        length = kept & np.uint64(0xFF)
        return np.column_stack([kept ^ length, length])
    found = cells[np.lexsort((cells[:, 1], cells[:, 0]))]
    return np.asarray(found[np.concatenate([[True], (found[1:] != found[:-1]).any(axis=1)])])


def members(cells: DzRows) -> DzRows:
    """Of the region that any cells make up."""
    return _canonical(ordered(cells))


def union(parts: Sequence[DzRows]) -> DzRows:
    """The members of the union of regions, each given by its members in order."""
    return _canonical(gathered(parts)) if len(parts) > 1 else parts[0]


def gathered(parts: Sequence[DzRows]) -> DzRows:
    """The distinct cells of several sorted lists, sorted."""
    level = list(parts)
    while len(level) > 1:
        pairs = [_merged(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def unfilled(cells: DzRows) -> int:
    """How many of these, sorted and distinct, are the longest around something: those that longer ones do not fill.

    It never falls when a cell is added. What is inside a cell of the set fills nothing else, since that cell is there
    already; so a new one fills at most the nearest around it, and is then one more itself.
    """
    return int(_unfilled(cells))


def events_in(codes: Codes, cells: DzRows) -> Ints:
    """How many of the codes each cell holds."""
    if codes.words.shape[1] == 1:
        words = np.sort(codes.words[:, 0])
        return _held(words, np.zeros(0, np.uint64), cells)
    order = np.lexsort((codes.words[:, 1], codes.words[:, 0]))
    high, low = np.ascontiguousarray(codes.words[order, :2].T)
    return _held(high, low, cells)


@compiled
def covers(a_high: Word, a_low: Word, b_high: Word, b_low: Word) -> bool:
    """Whether the first is a prefix of the second, or the same."""
    length = a_low & _LENGTH
    if length > (b_low & _LENGTH):
        return False
    if length == np.uint64(0):
        return True
    if length <= np.uint64(64):
        return bool((a_high ^ b_high) >> (np.uint64(64) - length) == np.uint64(0))
    return bool(a_high == b_high and (a_low ^ b_low) >> (np.uint64(128) - length) == np.uint64(0))


@compiled
def siblings(a_high: Word, a_low: Word, b_high: Word, b_low: Word) -> bool:
    """Whether these are the two halves of a cell."""
    length = a_low & _LENGTH
    if length != (b_low & _LENGTH) or length == np.uint64(0):
        return False
    if length <= np.uint64(64):
        return bool(a_high ^ b_high == _ONE << (np.uint64(64) - length) and a_low == b_low)
    return bool(a_high == b_high and a_low ^ b_low == _ONE << (np.uint64(128) - length))


@compiled
def joined(cells: DzRows, first: int, end: int) -> int:
    """Makes sorted cells the members of their union, in place; returns where they end now."""
    kept = first
    for i in range(first, end):
        high, low = cells[i, 0], cells[i, 1]
        if kept > first and covers(cells[kept - 1, 0], cells[kept - 1, 1], high, low):
            continue
        while kept > first and siblings(cells[kept - 1, 0], cells[kept - 1, 1], high, low):
            kept -= 1
            high, low = cells[kept, 0], cells[kept, 1] - _ONE  # the half with the same first atom, one bit shorter
        cells[kept, 0], cells[kept, 1] = high, low
        kept += 1
    return kept


@compiled
def _canonical(cells: DzRows) -> DzRows:
    found = cells.copy()
    return found[: joined(found, 0, found.shape[0])].copy()


@compiled
def _merged(a: DzRows, b: DzRows) -> DzRows:
    found = np.empty((a.shape[0] + b.shape[0], 2), np.uint64)
    i = j = count = 0
    while i < a.shape[0] or j < b.shape[0]:
        if j == b.shape[0]:
            mine, same = True, False
        elif i == a.shape[0]:
            mine, same = False, False
        else:
            same = a[i, 0] == b[j, 0] and a[i, 1] == b[j, 1]
            mine = a[i, 0] < b[j, 0] or (a[i, 0] == b[j, 0] and a[i, 1] <= b[j, 1])
        if mine:
            found[count, 0], found[count, 1] = a[i, 0], a[i, 1]
            i += 1
            j += same
        else:
            found[count, 0], found[count, 1] = b[j, 0], b[j, 1]
            j += 1
        count += 1
    return found[:count].copy()


@compiled
def _unfilled(cells: DzRows) -> int:
    """From the back, so that what is inside a cell comes before it; `whole` has the largest cells that are full."""
    whole = np.empty_like(cells)
    top = 0
    count = 0
    for i in range(cells.shape[0] - 1, -1, -1):
        high, low = cells[i, 0], cells[i, 1]
        if top and covers(whole[top - 1, 0], whole[top - 1, 1], high, low):
            continue
        count += 1
        while top and covers(high, low, whole[top - 1, 0], whole[top - 1, 1]):
            top -= 1
        while top and siblings(high, low, whole[top - 1, 0], whole[top - 1, 1]):
            top -= 1
            low -= _ONE
        whole[top, 0], whole[top, 1] = high, low
        top += 1
    return count


@compiled
def _held(high: Words, low: Words, cells: DzRows) -> Ints:
    """Sorted codes of one word (then `low` is empty) or two."""
    found = np.empty(cells.shape[0], np.int64)
    every = ~np.uint64(0)
    for i in range(cells.shape[0]):
        length = cells[i, 1] & _LENGTH
        start, rest = cells[i, 0], cells[i, 1] >> _BEHIND << _BEHIND
        if length == np.uint64(0):
            last, last_rest = every, every
        elif length <= np.uint64(64):
            last, last_rest = start | (every >> (length - _ONE) >> _ONE), every
        else:
            last, last_rest = start, rest | (every >> (length - np.uint64(64)))
        found[i] = _place(high, low, last, last_rest, True) - _place(high, low, start, rest, False)
    return found


@compiled
def _place(high: Words, low: Words, word: np.uint64, rest: np.uint64, behind: bool) -> int:
    """Before or behind all codes equal to this one."""
    a, b = 0, high.shape[0]
    while a < b:
        middle = (a + b) >> 1
        at = high[middle]
        less = at < word
        if at == word:
            two = low.shape[0] > 0
            less = (two and low[middle] < rest) or (behind and (not two or low[middle] == rest))
        if less:
            a = middle + 1
        else:
            b = middle
    return a

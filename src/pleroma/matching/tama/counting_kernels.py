"""The loops of TAMA: filing ranges under cells in a hash table, and counting what an event finds there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Ints32, Marks, Words, Words32
from pleroma.matching.row_kernels import ConstraintRows, EventRun, clear, lay_out, with_room

EQUALITY_BIT = 62
"""The bit of an attribute's levels that says there are constraints for single values."""


@compiled
def cell_of(knots: Floats, value: float, level: Int) -> Int:
    """The number of the cell of `level` with this value in it, as `Separation.cell` has it."""
    cells = np.int64(1) << level
    steps = knots.shape[0] - 1
    if value <= knots[0]:
        return np.int64(0)
    if value >= knots[steps]:
        return cells - 1
    a, b = 0, steps
    while b - a > 1:
        middle = (a + b) >> 1
        if knots[middle] <= value:
            a = middle
        else:
            b = middle
    share = (value - knots[a]) / (knots[a + 1] - knots[a])
    return min(np.int64((a + share) / steps * cells), cells - 1)


@compiled
def _mixed(word: np.uint64) -> np.uint64:
    """Bits well spread, so that neighbours do not crowd the hash table."""
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xFF51AFD7ED558CCD)
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> np.uint64(33))


@compiled
def _cell_key(attribute: Int, node: Int) -> np.uint64:
    return np.uint64(attribute) << np.uint64(40) | np.uint64(node)


@compiled
def _value_key(attribute: Int, value: float) -> np.uint64:
    """Of one value; should two ever share a key, the entry's own check tells them apart."""
    bits = np.array([value + 0.0]).view(np.uint64)[0]
    return _mixed(bits ^ _mixed(np.uint64(attribute) + np.uint64(1))) | np.uint64(1) << np.uint64(63)


@compiled
def _key_at(attribute: Int, value: float, leaf: Int, above: Int) -> np.uint64:
    """The key of the cell that many levels above a value's leaf; above the root there is the value's own key."""
    return _cell_key(attribute, leaf >> above) if above >= 0 else _value_key(attribute, value)


@compiled
def _place(keys: Words, key: np.uint64) -> Int:
    """Where the key is, or where it would be put; 0 is nobody's key."""
    mask = np.uint64(keys.shape[0] - 1)
    at = _mixed(key) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@compiled
def _is_equality(low: float, high: float) -> bool:
    return bool(np.isfinite(low) and np.nextafter(low, np.inf) == high)


@compiled
def _cells(
    knots: Floats, attribute: Int, low: float, high: float, level: Int, found: Words, ends: Marks
) -> tuple[Int, Int]:
    """The keys of a constraint's cells, which of them hold an end of it, how many, and the levels they are at."""
    if _is_equality(low, high):
        found[0] = _value_key(attribute, low)
        ends[0] = True
        return 1, np.int64(1) << EQUALITY_BIT
    leaf = np.int64(1) << level
    begin = leaf + cell_of(knots, low, level)
    end = leaf + cell_of(knots, np.nextafter(high, -np.inf), level)
    a, b = begin, end + 1
    count, shift, levels = 0, 0, np.int64(0)
    while a < b:
        for side in range(2):
            node = np.int64(0)
            if side == 0 and a & 1:
                node = a
                a += 1
            elif side == 1 and b & 1:
                b -= 1
                node = b
            if node:
                found[count] = _cell_key(attribute, node)
                first, last = node << shift, ((node + 1) << shift) - 1
                ends[count] = (first == begin and low != -np.inf) or (last == end and high != np.inf)
                levels |= np.int64(1) << (level - shift)
                count += 1
        a, b, shift = a >> 1, b >> 1, shift + 1
    return count, levels


@compiled
def file(
    first: Ints, attribute: Ints32, low: Floats, high: Floats, width: int, knots: Floats, level: int
) -> tuple[Ints, Words, Ints, Ints, Words32]:
    found = np.empty(64, np.uint64)
    ends = np.empty(64, np.bool_)
    levels = np.zeros(width, np.int64)
    total = np.int64(0)
    for k in range(attribute.shape[0]):
        a = attribute[k]
        count, used = _cells(knots[a], a, low[k], high[k], level, found, ends)
        levels[a] |= used
        total += count
    size = 2
    while size < 2 * min(total, (width << (level + 1)) + attribute.shape[0]):
        size *= 2
    keys = np.zeros(size, np.uint64)
    begin = np.zeros(size, np.int64)
    entries = np.empty(total, np.uint32)
    for turn in range(2):
        if turn == 1:  # counts become places
            places = np.cumsum(begin)
            begin[1:] = places[:-1]
            begin[0] = 0
            end = begin.copy()
        for row in range(first.shape[0] - 1):
            for k in range(first[row], first[row + 1]):
                a = attribute[k]
                count, _ = _cells(knots[a], a, low[k], high[k], level, found, ends)
                for i in range(count):
                    at = _place(keys, found[i])
                    if turn == 0:
                        keys[at] = found[i]
                        begin[at] += 1
                    else:
                        entries[end[at]] = row << 1 | ends[i]
                        end[at] += 1
    return levels, keys, begin, end, entries


@compiled
def _holds_on(values: Floats, first: Ints, attribute: Ints32, low: Floats, high: Floats, row: Int, wanted: Int) -> bool:
    """Whether the event satisfies a row's constraints on one attribute."""
    for k in range(first[row], first[row + 1]):
        if attribute[k] == wanted and not (low[k] <= values[wanted] < high[k]):
            return False
    return True


CountingArrays = tuple[Floats, Ints, Words, Ints, Ints, Words32, Ints32]
"""What is in a `CountingTable`, in the same order."""


class CountingTable(NamedTuple):
    """The hash table `keys` names a cell by attribute and `2**level + number`, its entries are `first` to `last`.

    An entry is a row, doubled, plus one where the cell holds an end of the range.
    """

    knots: Floats
    levels: Ints
    """For each attribute a bit for every level in use, and the topmost for equality."""
    keys: Words
    first: Ints
    last: Ints
    entries: Words32
    always: Ints32
    """The rows without constraints."""


@compiled
def search(
    rows: ConstraintRows, table: CountingArrays, deepest: int, exact: bool, events: EventRun
) -> tuple[Ints32, Ints]:
    """The rows that match, and where those of each event end; with `exact`, no row that does not."""
    first, attribute, low, high, dead = rows
    knots, levels, keys, places, place_ends, entries, always = table
    event_first, event_attribute, event_value, begin, end = events
    width = levels.shape[0]
    values = np.full(width, np.nan)
    counts = np.zeros(first.shape[0], np.uint16)
    touched, found = np.empty(64, np.int32), np.empty(64, np.int32)
    total = 0
    ends = np.empty(end - begin, np.int64)
    for e in range(begin, end):
        lay_out(values, event_attribute, event_value, event_first[e], event_first[e + 1])
        seen = 0
        for row in always:
            if not dead[row]:
                found = with_room(found, total)
                found[total] = row
                total += 1
        for k in range(event_first[e], event_first[e + 1]):
            a = np.int64(event_attribute[k])
            if a >= width:
                continue
            leaf = (np.int64(1) << deepest) + cell_of(knots[a], values[a], deepest)
            for level in range(EQUALITY_BIT + 1):
                if levels[a] >> level == 0:
                    break
                if not levels[a] >> level & 1:
                    continue
                at = _place(keys, _key_at(a, values[a], leaf, deepest - level))
                for i in range(places[at], place_ends[at]):
                    row = np.int64(entries[i] >> np.uint32(1))
                    doubtful = exact and entries[i] & np.uint32(1) != 0
                    if doubtful and not _holds_on(values, first, attribute, low, high, row, a):
                        continue
                    if counts[row] == 0:
                        touched = with_room(touched, seen)
                        touched[seen] = row
                        seen += 1
                    counts[row] += 1
                    if counts[row] == first[row + 1] - first[row] and not dead[row]:
                        found = with_room(found, total)
                        found[total] = row
                        total += 1
        for i in range(seen):
            counts[touched[i]] = 0
        clear(values, event_attribute, event_first[e], event_first[e + 1])
        ends[e - begin] = total
    return found[:total], ends


@compiled
def search_interfaces(
    rows: ConstraintRows,
    table: CountingArrays,
    deepest: int,
    exact: bool,
    events: EventRun,
    interface_of: Ints32,
    interfaces: int,
) -> Marks:
    """Dynamic matching of one event (III-E.3): an interface that has matched is passed over, the last of them ends it.

    A loop of its own, since `search` would be a tenth slower with the question which interface a row is of.
    """
    first, attribute, low, high, dead = rows
    knots, levels, keys, places, place_ends, entries, always = table
    event_first, event_attribute, event_value, event, _ = events
    matched = np.zeros(interfaces, np.bool_)
    left = interfaces
    for row in always:
        if not dead[row] and not matched[interface_of[row]]:
            matched[interface_of[row]] = True
            left -= 1
    values = np.full(levels.shape[0], np.nan)
    counts = np.zeros(first.shape[0], np.uint16)
    lay_out(values, event_attribute, event_value, event_first[event], event_first[event + 1])
    for k in range(event_first[event], event_first[event + 1]):
        a = np.int64(event_attribute[k])
        if a >= levels.shape[0]:
            continue
        leaf = (np.int64(1) << deepest) + cell_of(knots[a], values[a], deepest)
        for level in range(EQUALITY_BIT + 1):
            if left == 0 or levels[a] >> level == 0:
                break
            if not levels[a] >> level & 1:
                continue
            at = _place(keys, _key_at(a, values[a], leaf, deepest - level))
            for i in range(places[at], place_ends[at]):
                row = np.int64(entries[i] >> np.uint32(1))
                if matched[interface_of[row]]:
                    continue
                doubtful = exact and entries[i] & np.uint32(1) != 0
                if doubtful and not _holds_on(values, first, attribute, low, high, row, a):
                    continue
                counts[row] += 1
                if counts[row] == first[row + 1] - first[row] and not dead[row]:
                    matched[interface_of[row]] = True
                    left -= 1
    return matched

"""What the kernels of the matching structures share: the records they take, laying out an event, checking a row.

An event is laid out as one value per attribute, NaN where it has none, so that every comparison with what it lacks is
false.
"""

from __future__ import annotations

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Ints32, Marks

# plain tuples, since numba takes a NamedTuple in three times the time, which counts where events come one by one
ConstraintRows = tuple[Ints, Ints32, Floats, Floats, Marks]
"""Subscriptions by row: first, attribute, low, high, dead.

The constraints of a row are those from `first[row]` on; a row that is `dead` has left.
"""
EventRun = tuple[Ints, Ints32, Floats, int, int]
"""Some events of a batch, one after the other: first, attribute, value, begin, end.

The assignments of event `e` are those from `first[e]` on, and the events are those from `begin` to before `end`.
"""


@compiled
def lay_out(values: Floats, attribute: Ints32, value: Floats, begin: Int, end: Int) -> None:
    """Write the assignments `begin` to `end` into `values`, one place for each attribute that any row asks for."""
    for k in range(begin, end):
        if attribute[k] < values.shape[0]:
            values[attribute[k]] = value[k]


@compiled
def clear(values: Floats, attribute: Ints32, begin: Int, end: Int) -> None:
    """Take back what `lay_out` wrote."""
    for k in range(begin, end):
        if attribute[k] < values.shape[0]:
            values[attribute[k]] = np.nan


@compiled
def holds(values: Floats, first: Ints, attribute: Ints32, low: Floats, high: Floats, row: Int) -> bool:
    """Whether the event satisfies every constraint of a row."""
    for k in range(first[row], first[row + 1]):
        value = values[attribute[k]]
        if not (value >= low[k] and value < high[k]):
            return False
    return True


@compiled
def with_room(found: Ints32, count: Int) -> Ints32:
    """`found`, or a copy twice as large where there is no place for one more."""
    if count < found.shape[0]:
        return found
    larger = np.empty(2 * found.shape[0], np.int32)
    larger[:count] = found[:count]
    return larger


@compiled
def below(boundaries: Floats, value: float) -> int:
    """How many boundaries are at most `value`: the number of the cell that it is in.

    The number of steps depends on how many there are and not on the value, so that no step waits for a guess.
    """
    count, size = 0, boundaries.shape[0]
    while size > 1:
        half = size >> 1
        count += half * (boundaries[count + half - 1] <= value)
        size -= half
    return count + int(size == 1 and boundaries[count] <= value)


@compiled
def strictly_below(boundaries: Floats, value: float) -> int:
    """How many boundaries are less than `value`: the last cell that anything less than `value` is in."""
    a, b = 0, boundaries.shape[0]
    while a < b:
        middle = (a + b) >> 1
        if boundaries[middle] < value:
            a = middle + 1
        else:
            b = middle
    return a


@compiled
def permuted(
    first: Ints, attribute: Ints32, low: Floats, high: Floats, rows: Ints
) -> tuple[Ints, Ints32, Floats, Floats]:
    """The constraints of these rows, in this order."""
    starts = np.empty(rows.shape[0] + 1, np.int64)
    starts[0] = 0
    for i in range(rows.shape[0]):
        starts[i + 1] = starts[i] + first[rows[i] + 1] - first[rows[i]]
    attributes = np.empty(starts[-1], attribute.dtype)
    lows = np.empty(starts[-1])
    highs = np.empty(starts[-1])
    for i in range(rows.shape[0]):
        at = starts[i]
        for k in range(first[rows[i]], first[rows[i] + 1]):
            attributes[at] = attribute[k]
            lows[at] = low[k]
            highs[at] = high[k]
            at += 1
    return starts, attributes, lows, highs

"""Compiled loops over the rules of a table. Each has a slow and obvious twin in the tests."""

from __future__ import annotations

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Ints, Words


@compiled
def align(high: Words, low: Words) -> Ints:
    """Two-word dz with their leading 1, in place to left-aligned codes without it; returns their lengths."""
    length = np.empty(high.shape[0], np.int64)
    one = np.uint64(1)
    for i in range(high.shape[0]):
        upper, lower = high[i], low[i]
        length[i] = 127
        if upper == 0:
            upper, lower = lower, upper
            length[i] = 63
        while upper >> np.uint64(63) == 0:
            upper = upper << one | lower >> np.uint64(63)
            lower <<= one
            length[i] -= 1
        high[i] = upper << one | lower >> np.uint64(63)
        low[i] = lower << one
    return length


@compiled
def sweep(
    high: Words, low: Words, last_high: Words, last_low: Words, starts_high: Words, starts_low: Words, owner: Ints
) -> int:
    """Nested intervals of two-word codes as disjoint ones, each with the innermost it lies in (-1: none).

    The intervals come sorted by start, outer before inner, and are inclusive; two of them nest or are apart. Writes at
    most 2n + 1 starts, from 0 on and strictly increasing, and returns how many.
    """
    top = ~np.uint64(0)
    stack = np.empty(high.shape[0] + 1, np.int64)
    stack[0] = -1
    depth = 1
    starts_high[0] = 0
    starts_low[0] = 0
    owner[0] = -1
    count = 1
    for i in range(high.shape[0] + 1):
        while depth > 1:
            inner = stack[depth - 1]
            ends_high, ends_low = last_high[inner], last_low[inner]
            if i < high.shape[0] and (ends_high > high[i] or (ends_high == high[i] and ends_low >= low[i])):
                break
            depth -= 1
            if ends_high == top and ends_low == top:
                continue
            at_low = ends_low + np.uint64(1)
            at_high = ends_high + np.uint64(at_low == 0)
            if starts_high[count - 1] != at_high or starts_low[count - 1] != at_low:
                count += 1
            starts_high[count - 1] = at_high
            starts_low[count - 1] = at_low
            owner[count - 1] = stack[depth - 1]
        if i == high.shape[0]:
            break
        if starts_high[count - 1] != high[i] or starts_low[count - 1] != low[i]:
            count += 1
        starts_high[count - 1] = high[i]
        starts_low[count - 1] = low[i]
        owner[count - 1] = i
        stack[depth] = i
        depth += 1
    return count


@compiled
def find(starts_high: Words, starts_low: Words, high: Words, low: Words, out: Ints) -> None:
    """For each two-word code, the last start that is not above it; the first start is 0."""
    for i in range(high.shape[0]):
        a, b = 0, starts_high.shape[0]
        while b - a > 1:
            middle = (a + b) >> 1
            start = starts_high[middle]
            if start < high[i] or (start == high[i] and starts_low[middle] <= low[i]):
                a = middle
            else:
                b = middle
        out[i] = a

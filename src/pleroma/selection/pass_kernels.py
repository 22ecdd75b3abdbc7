"""The kernels of a pass over events: which boxes match an event along any two dimensions, counted by popcounts."""

from __future__ import annotations

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Ints32, Words
from pleroma.evaluation.bit_rows import popcount

UNIT_BITS = 30
UNIT = 1 << UNIT_BITS
"""Shares are counted in whole 1 / UNITs: fine enough for any ranking, and 2**33 of them fit a sum."""


@compiled
def stretches(bounds: Floats, keys: Floats, offset: Int, out: Ints) -> None:
    """How many bounds lie at or below each key, plus an offset; found by halving, without branches to mispredict."""
    size = bounds.shape[0]
    for event in range(keys.shape[0]):
        key = keys[event]
        low, left = 0, size
        while left > 1:
            half = left >> 1
            low += half * (bounds[low + half - 1] <= key)
            left -= half
        out[event] = low + (left == 1 and bounds[low] <= key) + offset


@compiled
def moments(scaled: Floats) -> tuple[Ints, Ints]:
    """The sums of values and of products of values, the latter as whole units and the rest."""
    events, dims = scaled.shape
    values = np.zeros(dims, np.int64)
    products = np.zeros((2, dims, dims), np.int64)
    units = np.zeros(dims, np.int64)
    for event in range(events):
        for d in range(dims):
            units[d] = np.int64(min(max(scaled[event, d], 0.0), 1.0) * UNIT + 0.5)
            values[d] += units[d]
            for other in range(d + 1):
                product = units[d] * units[other]
                products[0, other, d] += product >> UNIT_BITS
                products[1, other, d] += product & (UNIT - 1)
    for d in range(dims):
        for other in range(d):
            products[:, d, other] = products[:, other, d]
    return values, products


@compiled
def tallied(rows: Words, index: Ints, first: Int, both: Ints32, full: Ints32, last: Ints32) -> None:
    """Count, by event, the boxes of a block that match it; `first` is the number of the first box.

    `both[e, i, j]` for i <= j counts boxes matched along both, `full` boxes matched along all, and `last[e, d]` is a
    box matched along d: where there is one only, that one.
    """
    events, dims = index.shape
    words = rows.shape[1]
    every = np.empty(words, np.uint64)
    for event in range(events):
        every[:] = rows[index[event, 0]]
        for d in range(1, dims):
            mine = rows[index[event, d]]
            for word in range(words):
                every[word] &= mine[word]
        found: Int = 0
        for word in range(words):
            found += popcount(every[word])
        full[event] += found
        for i in range(dims):
            mine = rows[index[event, i]]
            for j in range(i, dims):
                its = rows[index[event, j]]
                found = 0
                for word in range(words):  # innermost, so that it is done several words at a time
                    found += popcount(mine[word] & its[word])
                both[event, i, j] += found
                if i == j and found == 1:
                    word = 0
                    while mine[word] == 0:
                        word += 1
                    last[event, i] = first + (word << 6) + popcount(mine[word] - np.uint64(1))


@compiled
def finished(
    both: Ints32, full: Ints32, last: Ints32, touched: Ints, pairs: Ints, false_rates: Ints, alone: Ints
) -> Int:
    """Add the counters of events to the sums over all events; returns the matches in full."""
    events, dims = last.shape
    matches: Int = 0
    for event in range(events):
        matches += full[event]
        for i in range(dims):
            touched[i] += both[event, i, i] > 0
            if both[event, i, i] == 1:
                alone[last[event, i], i] += 1
            for j in range(i, dims):
                common = both[event, i, j]
                if common > 0:
                    pairs[i, j] += common
                    if full[event] == 0:
                        false_rates[i, j] += UNIT
                    else:
                        false_rates[i, j] += np.int64((common - full[event]) / common * UNIT + 0.5)
    for i in range(dims):
        for j in range(i):
            pairs[i, j] = pairs[j, i]
            false_rates[i, j] = false_rates[j, i]
    return matches

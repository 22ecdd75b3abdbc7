"""Cells along each attribute, as many on either side of a boundary as there are bounds of constraints.

Boundaries are quantiles, hence the hierarchy that halving them gives is the optimal separation of Zhao and Wu 2011,
III-C, for the distribution that the subscriptions themselves show. Where an attribute has few distinct bounds, each is
a boundary, and no cell confuses two values.
"""

from __future__ import annotations

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Ints32, Words16
from pleroma.matching.row_kernels import below, strictly_below

BOUNDS_PER_BOUNDARY = 4
"""Bounds looked at for each boundary made."""


def boundaries(attribute: Ints32, low: Floats, high: Floats, width: int, cells: int) -> Floats:
    """For each attribute its `cells - 1` boundaries, infinite behind those it needs."""
    counts = np.bincount(attribute, minlength=width).astype(np.int64)
    sample, first = _sample(attribute, low, high, counts, BOUNDS_PER_BOUNDARY * cells)
    return _picked(sample, first, cells)


@compiled
def _picked(sample: Floats, first: Ints, cells: int) -> Floats:
    """Every distinct bound where they are few, else bounds at equal steps."""
    width = first.shape[0] - 1
    made = np.full((width, cells - 1), np.inf)
    for a in range(width):
        bounds = np.sort(sample[first[a] : first[a + 1]])
        distinct = 0
        for i in range(bounds.shape[0]):
            if i == 0 or bounds[i] != bounds[i - 1]:
                if distinct < cells - 1:
                    made[a, distinct] = bounds[i]
                distinct += 1
        if distinct >= cells:
            for i in range(1, cells):
                made[a, i - 1] = bounds[i * bounds.shape[0] // cells]
    return made


@compiled
def _sample(attribute: Ints32, low: Floats, high: Floats, counts: Ints, most: int) -> tuple[Floats, Ints]:
    """Finite bounds of evenly spread constraints of each attribute."""
    width = counts.shape[0]
    step = np.empty(width, np.int64)
    room = np.zeros(width + 1, np.int64)
    for a in range(width):
        step[a] = max(np.int64(1), 2 * counts[a] // most)
        room[a + 1] = room[a] + 2 * ((counts[a] + step[a] - 1) // step[a])
    sample = np.full(room[-1], np.nan)
    seen = np.zeros(width, np.int64)
    used = room[:-1].copy()
    for k in range(attribute.shape[0]):
        a = attribute[k]
        if seen[a] % step[a] == 0:
            if np.isfinite(low[k]):
                sample[used[a]] = low[k]
                used[a] += 1
            if np.isfinite(high[k]):
                sample[used[a]] = high[k]
                used[a] += 1
        seen[a] += 1
    first = np.zeros(width + 1, np.int64)
    for a in range(width):
        size = used[a] - room[a]
        sample[first[a] : first[a] + size] = sample[room[a] : used[a]]
        first[a + 1] = first[a] + size
    return sample[: first[-1]], first


@compiled
def spans(attribute: Ints32, low: Floats, high: Floats, grid: Floats) -> tuple[Words16, Words16]:
    """The first and the last cell of every constraint."""
    begin = np.empty(attribute.shape[0], np.uint16)
    end = np.empty(attribute.shape[0], np.uint16)
    for k in range(attribute.shape[0]):
        begin[k] = below(grid[attribute[k]], low[k])
        end[k] = strictly_below(grid[attribute[k]], high[k])
    return begin, end

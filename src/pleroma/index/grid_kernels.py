"""The cells of many events along the axes of a grid, and their bits interleaved: `GridIndex.dz`, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Words

SPREAD_BITS = 8
"""A cell number is spread over its places in the code by tables of this many bits at a time."""

EVENTS_PER_BLOCK = 512


class GridAxes(NamedTuple):
    """Axis j reads column `dims[j]` of a batch.

    A regular axis has `scale[j]` cells a unit from `low[j]` on, `top[j]` being the last; any other axis has its
    boundaries at `boundaries[listed[j]:listed[j + 1]]`. Its cell number is spread over the code by the tables from
    `first_table[j]` on, low bits first.
    """

    dims: Ints
    low: Floats
    scale: Floats
    top: Ints
    listed: Ints
    boundaries: Floats
    first_table: Ints


@compiled
def encode(points: Floats, axes: GridAxes, tables: Words, out: Words) -> bool:
    """The codes of a batch of points, one left-aligned word each; False if a coordinate is not finite.

    Blocks small enough for the cache are taken axis by axis, so that what an axis is like is decided once per block.
    """
    sane = True
    dims, low, scale, top, listed, boundaries, first_table = axes
    cells = np.empty(EVENTS_PER_BLOCK, np.int64)
    for start in range(0, points.shape[0], EVENTS_PER_BLOCK):
        size = min(EVENTS_PER_BLOCK, points.shape[0] - start)
        out[start : start + size] = 0
        for j in range(dims.shape[0]):
            column = points[start : start + size, dims[j]]
            if listed[j] == listed[j + 1]:
                sane &= _regular_cells(column, low[j], scale[j], np.float64(top[j]), cells)
            else:
                sane &= _listed_cells(column, boundaries[listed[j] : listed[j + 1]], cells)
            for t in range(first_table[j], first_table[j + 1]):
                shift = SPREAD_BITS * (t - first_table[j])
                for i in range(size):
                    out[start + i] |= tables[t, cells[i] >> shift & 255]
    return sane


@compiled
def _regular_cells(column: Floats, low: float, scale: float, top: float, cells: Ints) -> bool:
    """The cells of a column along an axis of equal cells; False if a coordinate is not finite."""
    total = 0.0
    for i in range(column.shape[0]):
        x = column[i]
        total += x - x
        shifted = (x - low) * scale
        shifted = shifted if shifted > 0.0 else 0.0
        cells[i] = np.int64(shifted if shifted < top else top)
    return total == 0.0


@compiled
def _listed_cells(column: Floats, boundaries: Floats, cells: Ints) -> bool:
    """The cells of a column along an axis with listed boundaries; False if a coordinate is not finite."""
    sane = True
    for i in range(column.shape[0]):
        x = column[i]
        sane &= x - x == 0.0
        a, b = 0, boundaries.shape[0]
        while a < b:
            middle = (a + b) >> 1
            if boundaries[middle] <= x:
                a = middle + 1
            else:
                b = middle
        cells[i] = a
    return sane

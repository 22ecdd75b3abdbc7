"""Cells where the work is: dimensions split at medians of the workload (Bhowmik et al. 2018, III-B; Grunert 2014, 4.1).

The workload of an event is the number of subscriptions it matches; a region is split where half of its workload lies
on either side. Done per dimension, the splits are the boundaries of a grid. A region without workload (no events, or
events that nobody matches) is split in the middle of its extent, so that traffic never seen before is still told
apart; a median that would leave one side empty moves to the nearest value that does not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Words
from pleroma.evaluation.bit_rows import exact_rows, popcount, stacked
from pleroma.evaluation.sample import Sample
from pleroma.index import GridIndex
from pleroma.index.axis import Axis
from pleroma.index.grid_index import round_robin

MAX_AXIS_BITS = 14
"""The most bits of one dimension: samples cannot place more than 16,383 boundaries, nor should a plan list more."""


class AdaptiveAxes:
    """The boundaries of each dimension at workload medians, for any number of bits, of one sample."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._load = workload(sample)

    def room(self, d: int) -> int:
        return min(self.sample.schema.attributes[d].bits, MAX_AXIS_BITS)

    def boundaries(self, d: int, bits: int) -> tuple[float, ...]:
        extent = self.sample.schema.attributes[d].extent
        return tuple(medians(self.sample.points[:, d], self._load, extent, bits))

    def axis(self, d: int, bits: int) -> Axis:
        return Axis.of(self.sample.schema.attributes[d], bits, self.boundaries(d, bits))

    def grid(self, bits: int, dimensions: Iterable[int]) -> GridIndex:
        order = round_robin(self.sample.schema, self.sample.chosen(dimensions), bits, self.room)
        return GridIndex(self.sample.schema, order, {d: self.boundaries(d, order.count(d)) for d in sorted(set(order))})


def adaptive_grid(sample: Sample, bits: int, dimensions: Iterable[int] | None = None) -> GridIndex:
    """A grid over some dimensions (all, if none are given) with boundaries at workload medians."""
    return AdaptiveAxes(sample).grid(bits, range(len(sample.schema)) if dimensions is None else dimensions)


def workload(sample: Sample) -> Ints:
    """By event: how many boxes match it in full. Overlapping boxes of one filter each count."""
    return _matches(*stacked([exact_rows(sample, d) for d in range(len(sample.schema))]))


def medians(values: Floats, load: Ints, extent: tuple[float, float], bits: int) -> list[float]:
    """The 2**bits - 1 boundaries of one dimension, sorted."""
    order = np.argsort(values, kind="stable")
    at = values[order]
    before = np.concatenate([[0], np.cumsum(load[order])])
    boundaries: list[float] = []

    def split(low: float, high: float, first: int, last: int, depth: int) -> None:
        """Add the boundaries inside [low, high), in which events `first` to `last` (excluded) lie."""
        if not depth:
            return
        cut = _median(at, before, low, high, first, last)
        middle = first + int(np.searchsorted(at[first:last], cut, side="left"))
        split(low, cut, first, middle, depth - 1)
        boundaries.append(cut)
        split(cut, high, middle, last, depth - 1)

    split(*extent, 0, len(at), bits)
    return boundaries


def _median(at: Floats, before: Ints, low: float, high: float, first: int, last: int) -> float:
    """Where to cut [low, high), in which events `first` to `last` lie. Values from the cut on are in the upper part."""
    total = before[last] - before[first]
    centre = low + (high - low) / 2
    if total <= 0:
        return centre
    half = before[first] + total / 2
    place = int(np.searchsorted(before[first : last + 1], half, side="left")) + first
    value = float(at[min(max(place - 1, first), last - 1)])
    start = first + int(np.searchsorted(at[first:last], value, side="left"))
    end = first + int(np.searchsorted(at[first:last], value, side="right"))
    # equal values cannot be parted: the cut goes to the side of them that balances better
    below, above = before[start] - before[first], before[end] - before[first]
    candidates = []
    if start > first:
        candidates.append((abs(2 * below - total), value))
    if end < last:
        candidates.append((abs(2 * above - total), float(at[end])))
    if not candidates:  # all values are equal: cut them off from the wider side, where other values may come
        return value if value - low >= high - value else float(np.nextafter(value, np.inf))
    return min(candidates)[1]


@compiled
def _matches(rows: Words, index: Ints) -> Ints:
    found = np.zeros(index.shape[0], np.int64)
    for event in range(index.shape[0]):
        for word in range(rows.shape[1]):
            bits = rows[index[event, 0], word]
            for d in range(1, index.shape[1]):
                bits &= rows[index[event, d], word]
            found[event] += popcount(bits)
    return found

"""Statistics of the traffic, from one pass over it: everything that the papers' selection techniques ask for.

All sums are whole numbers: shares are counted in units of 1 / `UNIT`, so that partial results of disjoint sets of
events add up to the same bits in whatever way a pass was split over partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.errors import TuningError
from pleroma.evaluation.sample import Sample
from pleroma.selection.box_blocks import BLOCK_BOXES, MAX_KEPT_BLOCKS, BoxBlocks, Column
from pleroma.selection.pass_kernels import UNIT, UNIT_BITS, finished, moments, tallied

PASS_CHUNK_EVENTS = 8_192
"""So many events are counted together: the counters of all of them stay in the processor's cache."""
LARGE_PASS_CHUNK_EVENTS = 65_536
"""So many are counted together where the rows of blocks are made again for every chunk, which then costs most."""


@dataclass(frozen=True, slots=True, eq=False)
class TrafficStatistics:
    """Sums over events. "Matched along a dimension" means that this one value lies in the box's range there."""

    events: int
    boxes: int
    values: Ints
    """By dimension: the sum of the scaled values, in units."""
    products: Ints
    """The sums of the products of two dimensions' scaled values: whole units, and what is left in units of a unit."""
    touched: Ints
    """By dimension: events matched along it by at least one box."""
    pairs: Ints
    """By two dimensions: (event, box) matched along both; on the diagonal, along the one."""
    false_rates: Ints
    """By two dimensions: the sum over events of the share of its matches along both that are not in full, in units."""
    matches: int
    """(event, box) matched in full."""
    covered: Ints
    """By box and dimension: events matched along it."""
    alone: Ints
    """By box and dimension: events matched along it by no other box."""

    def __add__(self, other: TrafficStatistics) -> TrafficStatistics:
        return self._with(other, 1)

    def __sub__(self, other: TrafficStatistics) -> TrafficStatistics:
        """The statistics without some of the events that were counted."""
        return self._with(other, -1)

    def _with(self, other: TrafficStatistics, sign: int) -> TrafficStatistics:
        if self.boxes != other.boxes or self.values.shape != other.values.shape:
            raise TuningError("statistics of other subscriptions do not add up", value=(self.boxes, other.boxes))
        summed = {f.name: getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)}
        return TrafficStatistics(**summed | {"boxes": self.boxes})

    @classmethod
    def none(cls, dims: int, boxes: int) -> TrafficStatistics:
        """The statistics of no events."""

        def zeros(*shape: int) -> Ints:
            return np.zeros(shape, np.int64)

        return cls(
            0,
            boxes,
            zeros(dims),
            zeros(2, dims, dims),
            zeros(dims),
            zeros(dims, dims),
            zeros(dims, dims),
            0,
            zeros(boxes, dims),
            zeros(boxes, dims),
        )

    @classmethod
    def of(cls, sample: Sample) -> TrafficStatistics:
        return cls.counted(BoxBlocks.of_sample(sample), list(sample.keys.T), sample.scaled())

    @classmethod
    def counted(cls, boxes: BoxBlocks, keys: Sequence[Column], scaled: Floats) -> TrafficStatistics:
        """The statistics of events, given their keys by dimension and their values as shares of the extents."""
        events, dims = scaled.shape
        values, products = moments(scaled)
        found = cls.none(dims, boxes.count)
        touched, pairs, false_rates = found.touched, found.pairs, found.false_rates
        matches = 0
        chunk = PASS_CHUNK_EVENTS if boxes.count <= BLOCK_BOXES * MAX_KEPT_BLOCKS else LARGE_PASS_CHUNK_EVENTS
        for begin in range(0, events, chunk):
            rows = slice(begin, begin + chunk)
            size = min(chunk, events - begin)
            both, full = np.zeros((size, dims, dims), np.int32), np.zeros(size, np.int32)
            last = np.zeros((size, dims), np.int32)
            for block in boxes.blocks():
                index = block.places(keys, rows)
                tallied(block.rows, index, block.first, both, full, last)
                found.covered[block.first : block.end] += block.covered(index)
            matches += int(finished(both, full, last, touched, pairs, false_rates, found.alone))
        return cls(
            events,
            boxes.count,
            values,
            products,
            touched,
            pairs,
            false_rates,
            matches,
            found.covered,
            found.alone,
        )

    @property
    def matched(self) -> Ints:
        """By dimension: (event, box) matched along it."""
        return np.diagonal(self.pairs)

    @property
    def covariance(self) -> Floats:
        # exact until the last division: what is constant has none
        whole, rest = self.products.astype(object)
        values = self.values.astype(object)
        spread = self.events * ((whole << UNIT_BITS) + rest) - np.outer(values, values)
        return np.asarray(spread / (UNIT * UNIT * self.events * max(self.events - 1, 1)), np.float64)

    @property
    def variance(self) -> Floats:
        return np.diagonal(self.covariance)

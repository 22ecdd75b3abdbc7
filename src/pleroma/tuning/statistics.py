"""One pass over the traffic, and everything the selection techniques of the papers ask about it.

Partial results of disjoint sets of events (and the same subscriptions) add up, so that a pass can be split over
partitions and put together again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pleroma.errors import TuningError
from pleroma.index.kernels import Floats, Int, Ints, Words, compiled
from pleroma.tuning.bit_rows import BitRows, popcount, stacked
from pleroma.tuning.sample import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sums over events. "Matched along a dimension" means that this one value lies in the box's range there."""

    events: int
    boxes: int
    values: Floats
    """By dimension: the sum of the scaled values."""
    products: Floats
    """By two dimensions: the sum of the products of the scaled values."""
    touched: Ints
    """By dimension: events matched along it by at least one box."""
    pairs: Ints
    """By two dimensions: (event, box) matched along both; on the diagonal, along the one."""
    false_rates: Floats
    """By two dimensions: the sum over events of the share of its matches along both that are not matches in full."""
    matches: int
    """(event, box) matched in full."""
    covered: Ints
    """By box and dimension: events matched along it."""
    alone: Ints
    """By box and dimension: events matched along it by no other box."""

    def __add__(self, other: Statistics) -> Statistics:
        if self.boxes != other.boxes or self.values.shape != other.values.shape:
            raise TuningError("statistics of other subscriptions do not add up", value=(self.boxes, other.boxes))
        summed = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Statistics(**summed | {"boxes": self.boxes})

    @classmethod
    def of(cls, sample: Sample) -> Statistics:
        rows, index = stacked([exact_rows(sample, d) for d in range(len(sample.schema))])
        scaled = sample.scaled()
        touched, pairs, false_rates, matches, alone = _pass(rows, index, sample.boxes)
        order = np.sort(sample.keys, axis=0)
        covered = np.column_stack(
            [
                np.searchsorted(order[:, d], sample.high[:, d]) - np.searchsorted(order[:, d], sample.low[:, d])
                for d in range(order.shape[1])
            ]
        )
        return cls(
            sample.events,
            sample.boxes,
            scaled.sum(axis=0),
            scaled.T @ scaled,
            touched,
            pairs,
            false_rates,
            int(matches),
            covered.astype(np.int64),
            alone,
        )

    @property
    def matched(self) -> Ints:
        """By dimension: (event, box) matched along it."""
        return np.diagonal(self.pairs)

    @property
    def covariance(self) -> Floats:
        mean = self.values / self.events
        spread = self.products - self.events * np.outer(mean, mean)
        # a dimension that is constant has none, though the sums of so many doubles seldom cancel out
        rounding = self.events * np.finfo(np.float64).eps * self.products
        return np.where(np.abs(spread) <= rounding, 0.0, spread) / max(self.events - 1, 1)

    @property
    def variance(self) -> Floats:
        return np.diagonal(self.covariance)


def exact_rows(sample: Sample, d: int) -> BitRows:
    """Along one dimension, exactly: between two neighbouring bounds of boxes, all values are alike."""
    bounds = np.unique(np.concatenate([sample.low[:, d], sample.high[:, d]]))

    def stretch(values: Floats) -> NDArray[np.int64]:
        return np.searchsorted(bounds, values, side="right").astype(np.int64)

    return BitRows.of(stretch(sample.keys[:, d]), stretch(sample.low[:, d]), stretch(sample.high[:, d]) - 1)


@compiled
def _pass(rows: Words, index: Ints, boxes: int) -> tuple[Ints, Ints, Floats, Int, Ints]:
    events, dims = index.shape
    words = rows.shape[1]
    touched = np.zeros(dims, np.int64)
    pairs = np.zeros((dims, dims), np.int64)
    false_rates = np.zeros((dims, dims))
    alone = np.zeros((boxes, dims), np.int64)
    both = np.zeros((dims, dims), np.int64)
    matches: Int = 0
    full: Int
    for event in range(events):
        full = 0
        both[:, :] = 0
        for word in range(words):
            bits = rows[index[event, 0], word]
            for d in range(1, dims):
                bits &= rows[index[event, d], word]
            full += popcount(bits)
            for i in range(dims):
                mine = rows[index[event, i], word]
                if mine != 0:
                    for j in range(i, dims):
                        both[i, j] += popcount(mine & rows[index[event, j], word])
        matches += full
        for i in range(dims):
            touched[i] += both[i, i] > 0
            if both[i, i] == 1:
                for word in range(words):
                    bits = rows[index[event, i], word]
                    if bits != 0:
                        alone[(word << 6) + popcount((bits & (~bits + np.uint64(1))) - np.uint64(1)), i] += 1
            for j in range(i, dims):
                pairs[i, j] += both[i, j]
                if both[i, j] > 0:
                    false_rates[i, j] += (both[i, j] - full) / both[i, j]
    for i in range(dims):
        for j in range(i):
            pairs[i, j] = pairs[j, i]
            false_rates[i, j] = false_rates[j, i]
    return touched, pairs, false_rates, matches, alone

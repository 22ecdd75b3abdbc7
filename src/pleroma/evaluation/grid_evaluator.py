"""How many deliveries an allocation of bits makes, for any subset of dimensions, from the same rows of bits.

An event is delivered to a box when their cells meet in every indexed dimension. The rows of a dimension at a depth are
made once and serve every allocation that uses them, so that trying all subsets is a matter of ANDs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.errors import TuningError
from pleroma.evaluation.bit_rows import BitRows, common, exact_rows, stacked
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of
from pleroma.index import GridIndex, Index, SelectiveIndex, TreeIndex, Waste
from pleroma.index.axis import Axis
from pleroma.index.dz import MAX_LENGTH
from pleroma.index.grid_index import round_robin
from pleroma.index.selective_codes import homes_of, taken_by

Axes = Callable[[int, int], Axis]
"""A dimension, cut with so many bits."""
Room = Callable[[int], int]
"""How many bits a dimension can use."""


class Evaluator(Protocol):
    """Finds what an index wastes on a sample if some dimensions share all its bits."""

    def waste(self, dimensions: Iterable[int]) -> Waste: ...


class GridEvaluator:
    """Waste on one sample. Covers are not limited in members here: this is what the bits alone can do."""

    def __init__(self, sample: Sample, bits: int, axes: Axes | None = None, room: Room | None = None) -> None:
        if not 1 <= bits <= MAX_LENGTH:
            raise TuningError(f"an index has 1 to {MAX_LENGTH} bits, not {bits}", field="bits", value=bits)
        self.sample = sample
        self.bits = bits
        self._axes = axes or (lambda d, n: Axis.of(sample.schema.attributes[d], n))
        self._room = room
        self._rows: dict[tuple[int, int], BitRows] = {}
        self._known: dict[frozenset[int], int] = {}

    @cached_property
    def wanted(self) -> int:
        """Deliveries that somebody asked for."""
        rows = [exact_rows(self.sample, d) for d in range(len(self.sample.schema))]
        return _common(self.sample, rows)

    def waste(self, dimensions: Iterable[int]) -> Waste:
        """The waste if these dimensions take turns for the bits, in the order of the schema."""
        return Waste(self.deliveries(dimensions), self.wanted)

    def deliveries(self, dimensions: Iterable[int]) -> int:
        listed = self.sample.chosen(dimensions)
        chosen = frozenset(listed)
        if chosen not in self._known:
            order = round_robin(self.sample.schema, listed, self.bits, self._room)
            depths = {d: order.count(d) for d in listed if d in order}
            self._known[chosen] = _common(self.sample, [self._rows_of(d, n) for d, n in depths.items()])
        return self._known[chosen]

    def waste_of(self, index: Index) -> Waste:
        """The waste of any index, on the same sample."""
        return Waste(deliveries(self.sample, index), self.wanted)

    def _rows_of(self, d: int, bits: int) -> BitRows:
        if (d, bits) not in self._rows:
            self._rows[d, bits] = _rows(self.sample, d, self._axes(d, bits))
        return self._rows[d, bits]


def deliveries(sample: Sample, index: Index) -> int:
    """What an index delivers, with covers as fine as its bits allow."""
    if isinstance(index, SelectiveIndex):
        pairs = zip(index.regions, parts(sample, index), strict=True)
        return sum(deliveries(part, region.grid) for region, part in pairs)
    if isinstance(index, TreeIndex):
        return deliveries_of(index, sample)
    if isinstance(index, GridIndex):
        return _common(sample, [_rows(sample, d, axis) for d, axis in index.axes.items()])
    raise TuningError(f"{type(index).__name__} cannot be evaluated", field="index")


def parts(sample: Sample, index: SelectiveIndex) -> list[Sample]:
    """For each region, the events that are sent in it and the boxes that are covered in it."""
    homes = homes_of(index, sample.first, sample.last)
    return [sample.part(taken, boxes) for taken, boxes in zip(taken_by(index, sample.points), homes, strict=True)]


def _rows(sample: Sample, d: int, axis: Axis) -> BitRows:
    columns = (sample.points[:, d], sample.first[:, d], sample.last[:, d])
    return BitRows.of(*(cells(axis, column) for column in columns))


def _common(sample: Sample, rows: Sequence[BitRows]) -> int:
    owners = len(np.unique(sample.owner))
    if not rows:
        return sample.events * owners
    return int(common(*stacked(list(rows)), sample.owner, owners == sample.boxes))


def cells(axis: Axis, values: Floats) -> Ints:
    """`Axis.cell`, for a whole column."""
    if axis.boundaries:
        return np.searchsorted(np.array(axis.boundaries), values, side="right").astype(np.int64)
    scaled = np.clip((values - axis.low) * axis.scale, 0.0, float((1 << axis.bits) - 1))
    return scaled.astype(np.int64)

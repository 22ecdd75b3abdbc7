"""How many deliveries an allocation of bits makes, for any subset of dimensions, from the same rows of bits.

An event is delivered to a box when their cells meet in every indexed dimension. The rows of a dimension at a depth are
made once and serve every allocation that uses them, so that trying all subsets is a matter of ANDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pleroma.errors import TuningError
from pleroma.index import GridIndex, Waste
from pleroma.index.axis import Axis
from pleroma.index.dz import MAX_LENGTH
from pleroma.index.grid import round_robin
from pleroma.tuning.bit_rows import BitRows, common, stacked
from pleroma.tuning.sample import Sample
from pleroma.tuning.statistics import exact_rows


class GridEvaluator:
    """Waste on one sample. Covers are not limited in members here: this is what the bits alone can do."""

    def __init__(self, sample: Sample, bits: int) -> None:
        if not 1 <= bits <= MAX_LENGTH:
            raise TuningError(f"an index has 1 to {MAX_LENGTH} bits, not {bits}", field="bits", value=bits)
        self.sample = sample
        self.bits = bits
        self._rows: dict[tuple[int, int], BitRows] = {}
        self._known: dict[frozenset[int], Waste] = {}

    @cached_property
    def wanted(self) -> int:
        """Deliveries that somebody asked for."""
        rows = [exact_rows(self.sample, d) for d in range(len(self.sample.schema))]
        return self._deliveries(rows)

    def waste(self, dimensions: Iterable[int]) -> Waste:
        """With these dimensions taking turns for the bits, in the order of the schema."""
        listed = self.sample.chosen(dimensions)
        chosen = frozenset(listed)
        if chosen not in self._known:
            order = round_robin(self.sample.schema, listed, self.bits)
            depths = {d: order.count(d) for d in listed if d in order}
            self._known[chosen] = Waste(self._deliveries([self.rows(d, n) for d, n in depths.items()]), self.wanted)
        return self._known[chosen]

    def waste_of(self, index: GridIndex) -> Waste:
        """With a given grid."""
        rows = [self._made(d, axis) for d, axis in index.axes.items()]
        return Waste(self._deliveries(rows), self.wanted)

    def rows(self, d: int, bits: int) -> BitRows:
        """Dimension `d` cut into 2**bits equal cells."""
        if (d, bits) not in self._rows:
            self._rows[d, bits] = self._made(d, Axis.of(self.sample.schema.attributes[d], bits))
        return self._rows[d, bits]

    def _made(self, d: int, axis: Axis) -> BitRows:
        sample = self.sample
        columns = (sample.points[:, d], sample.first[:, d], sample.last[:, d])
        return BitRows.of(*(cells(axis, column) for column in columns))

    def _deliveries(self, rows: Sequence[BitRows]) -> int:
        sample = self.sample
        if not rows:
            return sample.events * len(np.unique(sample.owner))
        single = len(np.unique(sample.owner)) == sample.boxes
        return int(common(*stacked(list(rows)), sample.owner, single))


def cells(axis: Axis, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """`Axis.cell`, for a whole column."""
    if axis.boundaries:
        return np.searchsorted(np.array(axis.boundaries), values, side="right").astype(np.int64)
    scaled = np.clip((values - axis.low) * axis.scale, 0.0, float((1 << axis.bits) - 1))
    return scaled.astype(np.int64)

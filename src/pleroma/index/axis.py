"""One dimension of a grid: coordinates to numbered cells.

A regular axis halves its extent, or a part of it, again and again, which is one multiplication; any other axis has its
cell boundaries listed. Either way the cell number is a monotone function of the coordinate, and events and filters both
go through it, so rounding can cost waste but never a match.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from pleroma.content import Attribute
from pleroma.errors import PlanError

MAX_LISTED_BITS = 20
"""Listed boundaries are 2**bits - 1 numbers in every plan; beyond this a plan is no longer something to send."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The cells of one attribute at full depth. `boundaries` is empty for a regular axis."""

    bits: int
    low: float
    scale: float
    boundaries: tuple[float, ...]

    @classmethod
    def of(
        cls,
        attribute: Attribute,
        bits: int,
        boundaries: tuple[float, ...] = (),
        within: tuple[float, float] | None = None,
    ) -> Axis:
        """`within` is the part to cut; what lies outside belongs to the first and the last cell."""
        low, high = within or attribute.extent
        if bits > attribute.bits:
            reason = f"{bits} bits are asked for, {attribute.bits} tell all its values apart"
            raise PlanError(reason, field=attribute.name, value=bits)
        if boundaries:
            _check(attribute, bits, boundaries)
        scale = 2.0**bits / (high - low) if high > low else 0.0
        # a domain too narrow to be scaled by a finite number is one cell: coarse, never wrong
        return cls(bits, low, scale if math.isfinite(scale) else 0.0, tuple(map(float, boundaries)))

    def cell(self, coordinate: float) -> int:
        if self.boundaries:
            return bisect_right(self.boundaries, coordinate)
        shifted, top = (coordinate - self.low) * self.scale, (1 << self.bits) - 1
        if not shifted > 0.0:  # or no number, where an endless distance is scaled by nothing
            return 0
        return int(shifted) if shifted < top else top

    def edges(self, cell: int, bits: int, high: float) -> tuple[float, float]:
        """Where the `cell`-th of 2**bits equal groups of cells begins and ends, for drawing."""
        first, last = cell << self.bits - bits, cell + 1 << self.bits - bits
        return self._edge(first, high), self._edge(last, high)

    def _edge(self, cell: int, high: float) -> float:
        if cell <= 0:
            return self.low
        if cell >= 1 << self.bits:
            return high
        if self.boundaries:
            return self.boundaries[cell - 1]
        return min(self.low + cell / self.scale, high) if self.scale else high  # without a scale, all is in cell 0


def _check(attribute: Attribute, bits: int, boundaries: tuple[float, ...]) -> None:
    if bits > MAX_LISTED_BITS:
        raise PlanError(f"at most {MAX_LISTED_BITS} bits can have listed boundaries", field=attribute.name, value=bits)
    if len(boundaries) != (1 << bits) - 1:
        reason = f"{bits} bits need {(1 << bits) - 1} boundaries, not {len(boundaries)}"
        raise PlanError(reason, field=attribute.name, value=len(boundaries))
    for boundary in boundaries:
        if isinstance(boundary, bool) or not isinstance(boundary, (int, float)) or not math.isfinite(boundary):
            raise PlanError(f"{boundary!r} is not a boundary", field=attribute.name, value=boundary)
    for before, after in pairwise(boundaries):
        if after < before:
            raise PlanError(f"boundary {after} comes after {before}", field=attribute.name, value=after)

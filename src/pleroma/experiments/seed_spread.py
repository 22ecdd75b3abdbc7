"""Lines that several seeds gave, as one line: the mean, and how far the seeds lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Floats


class SeededLine(NamedTuple):
    mean: list[float]
    spread: list[float]
    """The standard deviation of the seeds at each x; empty if there is one seed."""

    @classmethod
    def of(cls, runs: Sequence[Sequence[float]] | Floats) -> SeededLine:
        """Of a line for each seed."""
        found = np.asarray(runs, np.float64)
        return cls(found.mean(axis=0).tolist(), found.std(axis=0, ddof=1).tolist() if len(found) > 1 else [])

    def spread_at(self, places: Sequence[int]) -> dict[int, float]:
        """The spread by x."""
        return dict(zip(places, self.spread, strict=True)) if self.spread else {}

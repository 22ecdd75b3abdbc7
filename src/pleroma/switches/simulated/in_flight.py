"""The events of a batch that are at one place at one time, and how many copies of each there are.

Copies of an event are counted, not listed, so that tables which multiply events cost no more than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Ints, Ints32, Marks


@dataclass(frozen=True, slots=True)
class InFlight:
    """Rows sorted, each once; `times` None means one copy of each, as it should be."""

    rows: Ints32
    times: Ints | None = None

    @classmethod
    def merge(cls, parts: Sequence[InFlight]) -> InFlight:
        if len(parts) == 1:
            return parts[0]
        rows = np.concatenate([part.rows for part in parts])
        if all(part.times is None for part in parts):
            rows.sort(kind="stable")
            if not (rows[1:] == rows[:-1]).any():
                return cls(rows)
            each = np.ones(len(rows), np.int64)
        else:
            each = np.concatenate([np.ones(len(p.rows), np.int64) if p.times is None else p.times for p in parts])
        rows, place = np.unique(rows, return_inverse=True)
        times = np.zeros(len(rows), np.int64)
        np.add.at(times, place, each)
        return cls(rows, times)

    def where(self, chosen: Marks) -> InFlight:
        return InFlight(self.rows[chosen], None if self.times is None else self.times[chosen])

    @property
    def copies(self) -> int:
        return len(self.rows) if self.times is None else int(self.times.sum())

    @property
    def most_copied(self) -> int:
        """The row with the most copies."""
        return int(self.rows[0 if self.times is None else self.times.argmax()])

    def bytes(self, sizes: Ints) -> int:
        """Of all copies; `sizes` is one for all or one for each event."""
        if not sizes.ndim:
            return int(sizes) * self.copies
        each = sizes[self.rows]
        return int((each if self.times is None else each * self.times).sum())

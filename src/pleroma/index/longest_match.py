"""Which dz of a table no event ever follows, when every event follows the longest dz that it lies in.

If longer dz of the table fill both halves of a dz, every event in it follows one of those. A table without such dz does
the same with fewer entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pleroma.index.dz import Dz


class Filling(NamedTuple):
    """The cells that longer given cells fill: `given` are given themselves, `between` are not."""

    given: set[Dz]
    between: set[Dz]


def filling(cells: Iterable[Dz]) -> Filling:
    whole = set(cells)
    by_length: dict[int, list[Dz]] = {}
    for dz in whole:
        by_length.setdefault(dz.length, []).append(dz)
    found = Filling(set(), set())
    for length in range(max(by_length, default=0), 0, -1):
        for dz in by_length.get(length, ()):
            if dz & 1 and dz ^ 1 in whole:
                above = Dz(dz >> 1)
                if above in whole:
                    found.given.add(above)
                else:
                    found.between.add(above)
                    whole.add(above)
                    by_length.setdefault(length - 1, []).append(above)
    return found


def filled(cells: Iterable[Dz]) -> set[Dz]:
    """The given cells whose halves are both filled by longer given cells."""
    return filling(cells).given

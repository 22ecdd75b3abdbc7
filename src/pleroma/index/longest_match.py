"""Which of many dz are the longest around some atom, when every event follows the longest dz that it is in.

A dz both of whose halves are filled by longer ones is never the longest around anything. Without such, a table of
prefixes does the same with fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pleroma.index.dz import Dz


class Filling(NamedTuple):
    """Cells that longer ones fill: those that were given, and those that were not."""

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
    """Those of the cells whose halves are filled by longer ones."""
    return filling(cells).given

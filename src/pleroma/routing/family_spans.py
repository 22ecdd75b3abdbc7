"""The families in the order of the line of atoms: which is where, and how many rules it takes to tell them apart.

A rule of a switch belongs to one family, since its ports are those of one tree. So however coarse a table is made, it
has several rules where several families pass by.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property

from pleroma.index.dz import MAX_LENGTH, ROOT, Dz
from pleroma.index.dzset import DzSet

MAX_FAMILY_RULES = 1024
"""The most rules that it may take to tell families apart where tables have no limit."""
FAMILY_SHARE = 4
"""Of a limited table, one part in so many is for telling families apart; the others are for finer rules."""


class FamilySpans:
    """The maximal intervals of disjoint regions, each with the number of its region."""

    def __init__(self, regions: Iterable[DzSet]) -> None:
        placed = sorted((start, end, number) for number, region in enumerate(regions) for start, end in region.spans)
        self._starts = [start for start, _, _ in placed]
        self._ends = [end for _, end, _ in placed]
        self._owners = [number for _, _, number in placed]
        self._run: list[int] = []
        """For each interval, how many turns there were before it: neighbours of one region are the same run."""
        for at, owner in enumerate(self._owners):
            turned = at > 0 and owner != self._owners[at - 1]
            self._run.append((self._run[-1] if at else 0) + turned)
        self._holds_everything = placed[:1] == [(0, 1 << MAX_LENGTH, 0)]

    @property
    def runs(self) -> int:
        """Pieces of the line that belong to one region each, if the gaps between intervals are given away."""
        return self._run[-1] + 1 if self._run else 0

    @cached_property
    def least_rules(self) -> int:
        """How many rules the coarsest table has that keeps the regions apart: cells with parts of one region each."""
        count, cells = 0, [ROOT]
        while cells:
            cell = cells.pop()
            first, last = bisect_right(self._ends, cell.start), bisect_left(self._starts, cell.end) - 1
            if last >= first and self._run[first] != self._run[last]:
                cells += [Dz(cell << 1), Dz(cell << 1 | 1)]
            elif last >= first:
                count += 1
        return count

    def is_within_one(self, cell: Dz) -> bool:
        """Whether at most one region overlaps the cell."""
        first = bisect_right(self._ends, cell.start)
        last = bisect_left(self._starts, cell.end) - 1
        return last <= first or self._run[first] == self._run[last]

    def parts(self, region: DzSet) -> list[tuple[int, DzSet]]:
        """A region, divided among those here that have a part of it: the number of each, and its part."""
        if self._holds_everything:
            return [(0, region)]
        cut: dict[int, list[tuple[int, int]]] = {}
        is_whole = True
        for start, end in region.spans:
            first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
            is_whole = is_whole and first < last and self._starts[first] <= start and end <= self._ends[first]
            for at in range(first, last):
                piece = max(start, self._starts[at]), min(end, self._ends[at])
                cut.setdefault(self._owners[at], []).append(piece)
        if is_whole and len(cut) == 1:
            return [(number, region) for number in cut]
        return [(number, DzSet.of_spans(pieces)) for number, pieces in sorted(cut.items())]

    def nearest(self, atom: int) -> int:
        """The number of the region that is at an atom, or else of the one before it, or else of the first."""
        return self._owners[max(bisect_right(self._starts, atom) - 1, 0)]


def family_room(limits: Iterable[int]) -> int:
    """How many rules it may take to tell families apart, if tables have these limits."""
    return max(min(limits, default=FAMILY_SHARE * MAX_FAMILY_RULES) // FAMILY_SHARE, 1)

"""The families in the order of the line of atoms: which family is where, and how often they take turns.

A rule of a switch belongs to one family, since its ports are those of one tree. So a table has room for all families
only if it has room for a rule at every turn from one family to the next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.index.dzset import DzSet

MAX_RUNS = 256
"""Pieces into which families may cut the line of dz; every piece may take a rule on every switch."""
RULES_PER_RUN = 4
"""A limited table has room for so many times the pieces."""


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


def max_runs(limits: Iterable[int]) -> int:
    """Pieces into which families may cut the line, so that tables with these limits have room for them."""
    return min([MAX_RUNS, *(max(limit // RULES_PER_RUN, 1) for limit in limits)])

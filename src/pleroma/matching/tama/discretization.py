"""Hierarchical discretization (Zhao and Wu 2011, III-A, III-C): a range as few cells, at most two a level.

Level `l` has `2**l` cells, each of which is two at the next. A range takes the cells of the last level that it
touches, and wherever two halves of a larger cell are both taken, the larger one instead. What is taken too much lies in
the first and the last of those smallest cells and nowhere else. With an attribute's distribution function for an axis
instead of its values, halving a cell is cutting it at the median, which is the optimal separation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pleroma.errors import IndexingError

MAX_LEVEL = 26


class LevelCell(NamedTuple):
    level: int
    number: int


@dataclass(frozen=True, slots=True)
class Separation:
    """Where the cells of one attribute are: `knots` are values at equal steps of the distribution function.

    Two knots, the ends of the domain, separate uniformly. Values outside fall into the first and the last cell.
    """

    knots: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if len(self.knots) < 2 or list(self.knots) != sorted(self.knots) or self.knots[0] == self.knots[-1]:
            raise IndexingError("a separation needs values from low to high", field="knots", value=self.knots)

    @classmethod
    def fitted(cls, values: Sequence[float], steps: int = 256) -> Separation:
        """To a sample of an attribute's values: as many of them in each cell of a level as in any other."""
        ordered = sorted(values)
        last = len(ordered) - 1
        return cls(tuple(ordered[last * i // steps] for i in range(steps + 1)))

    def cell(self, value: float, level: int) -> int:
        """The number of the cell of `level` with this value in it."""
        cells = 1 << level
        steps = len(self.knots) - 1
        if value <= self.knots[0]:
            return 0
        if value >= self.knots[-1]:
            return cells - 1
        i = bisect_right(self.knots, value) - 1
        share = (value - self.knots[i]) / (self.knots[i + 1] - self.knots[i])
        return min(int((i + share) / steps * cells), cells - 1)


def discretize(first: int, last: int, level: int) -> list[LevelCell]:
    """The cells `first` to `last` of a level, coarsest first and from left to right."""
    check_level(level)
    if not 0 <= first <= last < 1 << level:
        raise IndexingError(f"cells {first} to {last} are not at level {level}", field="first", value=first)
    cells = []
    a, b = first, last + 1
    while a < b:
        if a & 1:
            cells.append(LevelCell(level, a))
            a += 1
        if b & 1:
            b -= 1
            cells.append(LevelCell(level, b))
        a, b, level = a >> 1, b >> 1, level - 1
    return sorted(cells)


def check_level(level: int) -> None:
    if not 0 <= level <= MAX_LEVEL:
        raise IndexingError(f"levels go from 0 to {MAX_LEVEL}", field="level", value=level)


def worst_false_positives(width: float, level: int, constraints: int = 1) -> float:
    """Of the events that pass, at most this part did not want to: two cells too much for each constraint.

    `width` is a constraint's part of its attribute's events (theorems 1 and 2).
    """
    waste = 2.0 * 2.0**-level
    return float(min(1.0, constraints * waste / (width + waste)))

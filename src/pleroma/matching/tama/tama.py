"""TAMA (Zhao and Wu 2011, III): a table from attribute, level and cell to the subscriptions there, and counting.

An event looks up its cell at every level of each of its attributes; a subscription found as often as it has
constraints matches. Approximately, as published: cells at the ends of a range hold a little too much. Or exactly, as is
the default: an entry whose cell holds an end of its range says so, and the range itself is asked before it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pleroma.arrays.types import Floats, Marks
from pleroma.errors import IndexingError
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.structure import MatchedRows
from pleroma.matching.tama.counting_kernels import CountingTable, file, search, search_interfaces
from pleroma.matching.tama.discretization import Separation, check_level

DEFAULT_LEVEL = 10
"""Deep enough for ranges of a hundredth; deeper ones count less often in vain but fill more cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Tama:
    name: ClassVar[str] = "tama"

    table: ConstraintTable
    counting: CountingTable
    level: int
    """The deepest of the cells."""
    exact: bool

    @classmethod
    def build(
        cls,
        table: ConstraintTable,
        level: int = DEFAULT_LEVEL,
        separations: Sequence[Separation] | None = None,
        exact: bool = True,
    ) -> Self:
        check_level(level)
        if separations is not None and len(separations) < table.width:
            reason = f"{len(separations)} separations for {table.width} attributes"
            raise IndexingError(reason, field="separations", value=len(separations))
        knots = _uniform(table) if separations is None else _knots(separations)
        filed = file(table.first, table.attribute, table.low, table.high, table.width, knots, level)
        return cls(table, CountingTable(knots, *filed, table.unconstrained), level, exact)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(array.nbytes for array in self.counting)

    @property
    def id_bytes(self) -> int:
        """What the paper's figure 12 counts: four bytes for each cell in use and for each subscription in a cell."""
        return 4 * (len(self.counting.entries) + int(np.count_nonzero(self.counting.keys)))

    def search(self, events: Occurrences, begin: int, end: int, dead: Marks) -> MatchedRows:
        run = events.run(begin, end)
        return MatchedRows(*search(self.table.rows(dead), self.counting[:], self.level, self.exact, run))

    def search_interfaces(self, events: Occurrences, event: int, dead: Marks, interfaces: int) -> Marks:
        """Which of the interfaces, numbered from 0, want one event. Whoever has matched is not counted any more."""
        run, of = events.run(event, event + 1), self.table.interfaces
        return search_interfaces(self.table.rows(dead), self.counting[:], self.level, self.exact, run, of, interfaces)


def _uniform(table: ConstraintTable) -> Floats:
    """Between the least and the greatest finite bound of each attribute."""
    knots = np.empty((table.width, 2))
    low, high = np.full(table.width, np.inf), np.full(table.width, -np.inf)
    for bounds in (table.low, table.high):
        finite = np.isfinite(bounds)
        np.minimum.at(low, table.attribute[finite], bounds[finite])
        np.maximum.at(high, table.attribute[finite], bounds[finite])
    known = low < high
    knots[:, 0] = np.where(known, low, 0.0)
    knots[:, 1] = np.where(known, high, 1.0)
    return knots


def _knots(separations: Sequence[Separation]) -> Floats:
    """All with as many steps as the finest has: those with two knots are stretched."""
    steps = max(len(each.knots) for each in separations) - 1
    places = np.arange(steps + 1) / steps
    return np.array(
        [
            each.knots
            if len(each.knots) == steps + 1
            else np.interp(places, np.linspace(0, 1, len(each.knots)), each.knots)
            for each in separations
        ]
    )

"""Every subscription looked at for every event. Nothing to build and nothing to get wrong: the oracle, and what a
handful of newcomers needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Ints, Ints32, Marks
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.row_kernels import ConstraintRows, EventRun, clear, holds, lay_out, with_room
from pleroma.matching.structure import MatchedRows


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    name: ClassVar[str] = "scan"

    table: ConstraintTable
    width: int

    @classmethod
    def build(cls, table: ConstraintTable) -> Self:
        return cls(table, table.width)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def search(self, events: Occurrences, begin: int, end: int, dead: Marks) -> MatchedRows:
        return MatchedRows(*scan(self.table.rows(dead), len(self.table), self.width, events.run(begin, end)))


@compiled
def scan(table: ConstraintRows, rows: int, width: int, events: EventRun) -> tuple[Ints32, Ints]:
    """The first `rows` rows against each event; attributes are numbered below `width`."""
    first, attribute, low, high, dead = table
    event_first, event_attribute, event_value, begin, end = events
    values = np.full(width, np.nan)
    found = np.empty(64, np.int32)
    count = 0
    ends = np.empty(end - begin, np.int64)
    for e in range(begin, end):
        lay_out(values, event_attribute, event_value, event_first[e], event_first[e + 1])
        for row in range(rows):
            if not dead[row] and holds(values, first, attribute, low, high, row):
                found = with_room(found, count)
                found[count] = row
                count += 1
        clear(values, event_attribute, event_first[e], event_first[e + 1])
        ends[e - begin] = count
    return found[:count], ends

"""One of the structures that hold an engine's subscriptions, and the marks of those that left after it was made."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pleroma.arrays.types import Ints, Ints32, Marks
from pleroma.matching.choice import AUTOMATIC, choose
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.matcher import PartStatistics
from pleroma.matching.structure import Structure


class EnginePart:
    def __init__(self, structure: Structure, why: str) -> None:
        self.structure = structure
        self.why = why
        self.dead: Marks = np.zeros(len(structure.table), np.bool_)
        self.removed = 0

    @classmethod
    def of(cls, table: ConstraintTable, name: str = AUTOMATIC) -> EnginePart:
        structure, why = choose(table, name)
        return cls(structure.build(table), why)

    def __len__(self) -> int:
        return len(self.dead) - self.removed

    @cached_property
    def _order(self) -> Ints | None:
        """Rows by id; None where they are in that order anyway."""
        ids = self.structure.table.ids
        return None if (ids[1:] >= ids[:-1]).all() else np.argsort(ids, kind="stable").astype(np.int32)

    @cached_property
    def _sorted(self) -> Ints:
        ids = self.structure.table.ids
        return ids if self._order is None else ids[self._order]

    def place(self, subscription: int) -> int | None:
        """The row of a subscription; None where this part does not have it or it has left."""
        at = int(self._sorted.searchsorted(subscription))
        if at == len(self._sorted) or self._sorted[at] != subscription:
            return None
        row = at if self._order is None else int(self._order[at])
        return None if self.dead[row] else row

    def known(self, subscriptions: Ints) -> Ints:
        """Those of these ids that this part has."""
        found = np.minimum(self._sorted.searchsorted(subscriptions), len(self._sorted) - 1)
        rows = found if self._order is None else self._order[found]
        here: Ints = subscriptions[(self._sorted[found] == subscriptions) & ~self.dead[rows]]
        return here

    @property
    def constraints(self) -> int:
        """How many constraints the rows have that have not left."""
        table = self.structure.table
        return table.constraints - int(np.diff(table.first)[self.dead].sum())

    def remove(self, row: int) -> None:
        self.dead[row] = True
        self.removed += 1

    def found(self, events: Occurrences) -> tuple[ConstraintTable, Ints32]:
        """The rows that want the first event."""
        return self.structure.table, self.structure.search(events, 0, 1, self.dead).rows

    def live(self) -> tuple[ConstraintTable, Ints]:
        """The rows that have not left."""
        return self.structure.table, np.flatnonzero(~self.dead)

    def table(self) -> ConstraintTable:
        """The subscriptions that have not left."""
        table, rows = self.live()
        return table.take(rows) if self.removed else table

    def statistics(self) -> PartStatistics:
        extra = self.dead.nbytes
        if self._order is not None:
            extra += self._order.nbytes + self._sorted.nbytes
        memory = self.structure.nbytes + extra
        return PartStatistics(self.structure.name, self.why, len(self), self.removed, memory)

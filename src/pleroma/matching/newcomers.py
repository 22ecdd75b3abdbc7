"""Subscriptions that came lately, in arrays with room at the end.

A row that was written is never moved or changed, except for the mark that it has left. So a reader who knows how many
rows there were may go on reading while a writer adds rows behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Ints, Ints32, Marks
from pleroma.errors import ContentError
from pleroma.matching.constraint_table import MAX_ATTRIBUTES, Constraint, ConstraintTable, Occurrences
from pleroma.matching.scan import scan
from pleroma.matching.structure import MatchedRows


class _Seen(NamedTuple):
    """What readers may look at."""

    table: ConstraintTable
    """Its arrays reach beyond the rows."""
    rows: int
    width: int


class Newcomers:
    def __init__(self, room: int) -> None:
        self.room = room
        self.dead: Marks = np.zeros(room, np.bool_)
        self.places: dict[int, int] = {}
        first = np.zeros(room + 1, np.int64)
        empty = ConstraintTable(
            np.empty(room, np.int64), np.empty(room, np.int32), first, np.empty(0, np.int32), np.empty(0), np.empty(0)
        )
        self._seen = _Seen(empty, 0, 0)

    def __len__(self) -> int:
        return self._seen.rows

    @property
    def ids(self) -> Ints:
        return self._seen.table.ids

    def add(self, subscription: int, constraints: Sequence[Constraint], interface: int) -> None:
        table, row, width = self._seen
        begin = int(table.first[row])
        end = begin + len(constraints)
        for attribute, low, high in constraints:
            if not 0 <= attribute < MAX_ATTRIBUTES:
                reason = f"attributes are numbered from 0 to {MAX_ATTRIBUTES - 1}"
                raise ContentError(reason, field="attribute", value=attribute)
            if not low < high:
                reason = "a constraint wants a range [low, high) with something in it"
                raise ContentError(reason, field="low", value=(low, high))
            width = max(width, attribute + 1)
        if end > table.constraints:
            table = _roomier(table, max(end, 2 * table.constraints))
        table.ids[row] = subscription
        table.interfaces[row] = interface
        table.first[row + 1] = end
        if constraints:
            table.attribute[begin:end], table.low[begin:end], table.high[begin:end] = zip(*constraints, strict=True)
        self._seen = _Seen(table, row + 1, width)
        self.places[subscription] = row

    def remove(self, subscription: int) -> bool:
        """Mark a subscription as left; False if it is not one of the newcomers."""
        row = self.places.pop(subscription, None)
        if row is not None:
            self.dead[row] = True
        return row is not None

    def search(self, events: Occurrences, begin: int, end: int) -> tuple[ConstraintTable, MatchedRows]:
        table, rows, width = self._seen
        return table, MatchedRows(*scan(table.rows(self.dead), rows, width, events.run(begin, end)))

    def found(self, events: Occurrences) -> tuple[ConstraintTable, Ints32]:
        """The rows that want the first event."""
        table, found = self.search(events, 0, 1)
        return table, found.rows

    def live(self) -> tuple[ConstraintTable, Ints]:
        """The rows that have not left."""
        table, rows, _ = self._seen
        return table, np.flatnonzero(~self.dead[:rows])

    def table(self) -> ConstraintTable:
        """The subscriptions that have not left."""
        table, rows = self.live()
        return table.take(rows)

    def row(self, row: int) -> tuple[Constraint, ...]:
        return self._seen.table.row(row)

    @property
    def nbytes(self) -> int:
        return self._seen.table.nbytes + self.dead.nbytes


def _roomier(table: ConstraintTable, constraints: int) -> ConstraintTable:
    """The same rows, which readers share, and larger copies of their constraints."""
    used = table.constraints
    attribute, low, high = np.empty(constraints, np.int32), np.empty(constraints), np.empty(constraints)
    attribute[:used], low[:used], high[:used] = table.attribute, table.low, table.high
    return ConstraintTable(table.ids, table.interfaces, table.first, attribute, low, high)

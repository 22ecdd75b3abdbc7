"""Operations of one switch that are confirmed together.

Of several operations on one rule a batch keeps what they come to. So a switch that stays silent for a day costs as much
memory as it has rules to change, and no rule is sent to it that is not wanted any more.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial

from pleroma.control.log.durable_log import Position
from pleroma.index import Dz
from pleroma.index.dz import MAX_LENGTH
from pleroma.routing import AdmitOp, Change, Port, SwitchOp
from pleroma.routing.detour import cell_of

MAX_IDLE_CELLS = 1000
"""Cells without an operation that a batch may still know of; with more of them it is made smaller."""

ENTRIES_PER_ORDERING = 1000

_RuleKey = tuple[type[SwitchOp], Port | None, Dz]


class SwitchBatch:
    """What follows for one switch from some entries of the log. Another thread may make one for an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self.confirmed: asyncio.Future[None] = self._loop.create_future()
        """Done when the switch has confirmed the operations, or has failed to."""
        self.since = self._loop.time()
        self._positions: list[Position] = []
        """The entries, in the order of the log."""
        self._ops: dict[_RuleKey, SwitchOp] = {}
        self._was_tried = False
        """Some operations may be in force already: none of them is left out because a later one undoes it."""
        self._first: dict[Dz, Position] = {}
        """By cell: the first entry with an operation on exactly this cell."""
        self._ordered: list[int] = []
        """The places of cells, in order. Most batches are confirmed before anybody asks for it."""
        self._unordered: list[Dz] = []

    def __bool__(self) -> bool:
        return bool(self._positions)

    def __len__(self) -> int:
        return len(self._ops)

    @property
    def first(self) -> Position:
        return self._positions[0]

    @property
    def ops(self) -> list[SwitchOp]:
        return list(self._ops.values())

    def add(self, position: Position, ops: Iterable[SwitchOp]) -> None:
        if not self._positions:
            self.since = self._loop.time()
        self._positions.append(position)
        for op in ops:
            self._put(op)
            self._know(cell_of(op), position)
        if len(self._positions) % ENTRIES_PER_ORDERING == 0:
            self.order()  # so that nobody who asks has to wait for all of it
        if len(self._first) > 2 * len(self._ops) + MAX_IDLE_CELLS:
            self._forget_idle_cells()

    def then(self, later: SwitchBatch) -> SwitchBatch:
        """This batch, which has failed or waits behind one that has, and one that came later.

        It is not known which of the operations that failed are in force. Who waits for either batch waits for the
        result, unless this one has failed: who waited for it was told.
        """
        if not self.confirmed.done():
            later.confirmed.add_done_callback(partial(_pass_on, self.confirmed))
        both = SwitchBatch()
        both.confirmed, both.since = later.confirmed, self.since
        both._positions = self._positions + later._positions
        both._ops, both._was_tried = self._ops, True
        for op in later._ops.values():
            both._put(op)
        both._first, both._ordered, both._unordered = self._first, self._ordered, self._unordered
        for cell, position in later._first.items():
            both._know(cell, position)
        return both

    def follows_from(self, position: Position) -> bool:
        """Whether an operation follows from the entry at a position."""
        place = bisect_left(self._positions, position)
        return place < len(self._positions) and self._positions[place] == position

    def overlaps(self, cells: Sequence[Dz], until: Position) -> bool:
        """Whether an operation that follows from an entry up to a position is about any part of these cells."""
        self.order()
        return any(self._covers(cell, until) or self._has_within(cell, until) for cell in cells)

    def fail(self, error: Exception) -> None:
        self.confirmed.set_exception(error)
        self.confirmed.exception()  # it is no mistake if nobody asks

    def _put(self, op: SwitchOp) -> None:
        """Have an operation done after all others."""
        key = type(op), op.port if isinstance(op, AdmitOp) else None, cell_of(op)
        before = self._ops.pop(key, None)
        come_to = op if before is None else _come_to(before, op)
        if come_to is not None or self._was_tried:
            self._ops[key] = come_to or op

    def _know(self, cell: Dz, position: Position) -> None:
        if cell not in self._first:
            self._first[cell] = position
            self._unordered.append(cell)

    def order(self) -> None:
        """Be ready for `overlaps`. Somebody asks that of few batches, so it is not done whenever a cell comes."""
        if self._unordered:
            self._ordered += map(_place, self._unordered)
            self._ordered.sort()
            self._unordered.clear()

    def _forget_idle_cells(self) -> None:
        self._first = {cell: self._first[cell] for cell in map(cell_of, self._ops.values())}
        self._ordered, self._unordered = [], list(self._first)

    def _covers(self, cell: int, until: Position) -> bool:
        """Whether there is an operation on a cell or on one around it."""
        first: dict[int, Position] = self._first  # type: ignore[assignment]  # a Dz is an int, and hashes as one
        while cell:
            if first.get(cell, until + 1) <= until:
                return True
            cell >>= 1
        return False

    def _has_within(self, cell: Dz, until: Position) -> bool:
        end = cell.end << _LENGTH_BITS
        for number in range(bisect_left(self._ordered, _place(cell)), len(self._ordered)):
            place = self._ordered[number]
            if place >= end:
                return False
            if self._first[_cell_at(place)] <= until:
                return True
        return False


def _pass_on(waiting: asyncio.Future[None], done: asyncio.Future[None]) -> None:
    """Tell those who wait for a batch what became of the one that it went along with."""
    if not waiting.done():
        if (error := done.exception()) is not None:
            waiting.set_exception(error)
            waiting.exception()
        else:
            waiting.set_result(None)


def _come_to(first: SwitchOp, last: SwitchOp) -> SwitchOp | None:
    """What two operations on the same rule come to; None if that is nothing."""
    was_there, is_there = first.change is not Change.ADD, last.change is not Change.DELETE
    if was_there != is_there:
        return last._replace(change=Change.ADD if is_there else Change.DELETE)
    if not is_there or isinstance(last, AdmitOp):
        return None
    return last._replace(change=Change.MODIFY)


_LENGTH_BITS = 8


def _place(cell: Dz) -> int:
    """A number that puts a cell before all cells in it, and these before all that follow it."""
    return cell.start << _LENGTH_BITS | cell.length


def _cell_at(place: int) -> Dz:
    length = place & (1 << _LENGTH_BITS) - 1
    return Dz(1 << length | place >> _LENGTH_BITS + MAX_LENGTH - length)

"""The way to one switch: its operations in the order of the log, as many at once as have come together.

Each switch has a lane of its own, so a switch that does not answer keeps nobody waiting but those who rely on it
(Bhowmik et al. 2017, IV-B).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pleroma.control.log.entry import Position
from pleroma.control.southbound import Southbound
from pleroma.errors import NotInstalled
from pleroma.index import Dz
from pleroma.routing import AdmitOp, SwitchId, SwitchOp

FIRST_INSTALL_RETRY_SECONDS = 0.05
MAX_INSTALL_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SwitchDelay:
    """How far a switch is behind."""

    confirmed: Position
    """Whatever follows for the switch from the entries up to this position is in force."""
    operations: int
    """How many operations the switch has not confirmed."""
    seconds: float
    """How long the oldest of these has been waiting."""
    failure: Exception | None
    """Why the last attempt failed, if it did."""


class SwitchBatch:
    """Operations of one switch that are confirmed together."""

    def __init__(self, entries: Iterable[tuple[Position, Sequence[SwitchOp]]] = ()) -> None:
        self.entries = list(entries)
        """By entry of the log, in the order of the log: what follows from it for the switch."""
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the switch has confirmed the operations, or has failed to."""
        self.since = asyncio.get_running_loop().time()
        self._indexed = 0
        """How many of the entries the two maps below know. Most batches are confirmed before anybody asks."""
        self._at: dict[int, Position] = {}
        """By cell: the first entry with an operation there."""
        self._within: dict[int, Position] = {}
        """By cell: the first entry with an operation there or in a smaller cell."""

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def first(self) -> Position:
        return self.entries[0][0]

    @property
    def ops(self) -> list[SwitchOp]:
        return [op for _, ops in self.entries for op in ops]

    def add(self, position: Position, ops: Sequence[SwitchOp]) -> None:
        if not self.entries:
            self.since = asyncio.get_running_loop().time()
        self.entries.append((position, ops))

    def then(self, later: SwitchBatch) -> SwitchBatch:
        """The operations of both batches. Who waits for the later batch waits for this."""
        both = SwitchBatch(self.entries + later.entries)
        both.confirmed, both.since = later.confirmed, self.since
        return both

    def follows_from(self, position: Position) -> bool:
        """Whether an operation follows from the entry at a position."""
        place = bisect_left(self.entries, position, key=lambda entry: entry[0])
        return place < len(self.entries) and self.entries[place][0] == position

    def overlaps(self, cells: Iterable[Dz], until: Position) -> bool:
        """Whether an operation that follows from an entry up to a position is about any part of these cells."""
        for position, ops in self.entries[self._indexed :]:
            for op in ops:
                cell: int = op.dz if isinstance(op, AdmitOp) else op.flow.dz
                self._at.setdefault(cell, position)
                while cell and cell not in self._within:
                    self._within[cell] = position
                    cell >>= 1
        self._indexed = len(self.entries)
        return any(self._overlaps(cell, until) for cell in cells)

    def _overlaps(self, cell: Dz, until: Position) -> bool:
        for bits in range(cell.length, -1, -1):  # from the whole event space down to the cell
            around = cell >> bits
            if self._within.get(around, until + 1) > until:
                return False
            if self._at.get(around, until + 1) <= until:
                return True
        return True

    def fail(self, error: Exception) -> None:
        self.confirmed.set_exception(error)
        self.confirmed.exception()  # it is no mistake if nobody asks


class Lane:
    """Sends the operations of one switch, in order. While one batch is on its way, the next gathers.

    A batch that fails is tried again until it succeeds: the state is durable, so the network has to follow. Those who
    wait for the batch are told after the first failure. A lane begins with its first operations; when all are
    confirmed, it calls `on_end` with its switch, and is given no more.
    """

    def __init__(self, switch: SwitchId, network: Southbound, on_end: Callable[[SwitchId], object]) -> None:
        self.failure: Exception | None = None
        """Why the switch is behind, after an attempt that failed."""
        self._switch = switch
        self._network = network
        self._on_end = on_end
        self._sent: SwitchBatch | None = None
        self._next = SwitchBatch()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"lane {switch}")

    def give(self, position: Position, ops: Sequence[SwitchOp]) -> None:
        self._next.add(position, ops)

    @property
    def pending(self) -> list[SwitchBatch]:
        """What the switch has not confirmed: the batch on its way, if there is one, before the one that gathers."""
        return [batch for batch in (self._sent, self._next) if batch]

    @property
    def confirmed(self) -> Position:
        """Whatever follows for the switch from the entries up to this position is in force."""
        return Position(self.pending[0].first - 1)

    @property
    def delay(self) -> SwitchDelay:
        pending = self.pending
        seconds = asyncio.get_running_loop().time() - pending[0].since
        count = sum(len(ops) for batch in pending for _, ops in batch.entries)
        return SwitchDelay(self.confirmed, count, seconds, self.failure)

    async def close(self) -> None:
        """Stop, whether or not the switch has confirmed everything."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        for batch in self.pending:
            batch.fail(NotInstalled("the controller is closing"))

    async def _run(self) -> None:
        """Send what has gathered, until nothing is left."""
        pause = FIRST_INSTALL_RETRY_SECONDS
        while self._next:
            batch = self._sent = self._next
            self._next = SwitchBatch()
            try:
                await self._network.install(batch.ops)
            except Exception as error:
                self.failure = error
                # what came since may be what helps, such as a table that fits
                self._sent, self._next = None, batch.then(self._next)
                batch.fail(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_INSTALL_RETRY_SECONDS)
            else:
                self.failure = self._sent = None
                pause = FIRST_INSTALL_RETRY_SECONDS
                batch.confirmed.set_result(None)
        self._on_end(self._switch)

"""The way down to the switches: operations in the order of the log, each switch in a lane of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from pleroma.background import in_background
from pleroma.control.lane import Lane, SwitchDelay
from pleroma.control.log.durable_log import LOG_START, Position
from pleroma.control.southbound import Southbound
from pleroma.control.switch_batch import SwitchBatch
from pleroma.errors import NotInstalled
from pleroma.index import Dz
from pleroma.routing import SwitchId, SwitchOp

MAX_OPS_PER_TURN = 500
"""Operations that are put into batches before the event loop looks at something else."""

Awaited = Mapping[SwitchId, Sequence[SwitchBatch]]
"""By switch: the batches that somebody waits for."""


class Installer:
    """Hands operations to the lanes of their switches, and finds the batches that a request has to wait for.

    All lanes that begin in one turn of the event loop send in its next turn, one after the other and before anything is
    read: a network in the same process changes all its tables between two packets.
    """

    def __init__(self, network: Southbound, given: Position = LOG_START) -> None:
        """`given` is the last entry from which everything that follows is in force."""
        self._network = network
        self._given = given
        self._is_closed = False
        self._lanes: dict[SwitchId, Lane] = {}
        """Of the switches that are behind."""
        self._vacated: list[tuple[Sequence[Dz], Position]] = []
        """Cells that have left their trees, while switches that are behind have rules of them; with the entry."""

    async def give(self, position: Position, ops: Sequence[SwitchOp]) -> None:
        """Have the operations sent that follow from the entry at this position, or from a change of the network.

        Very many are put together in another thread, as batches of their own.
        """
        if len(ops) > MAX_OPS_PER_TURN:
            batches = await in_background(_large_batches, position, ops, asyncio.get_running_loop())
            if self._is_closed:
                return
            for switch, batch in batches.items():
                self._lane(switch).give_batch(batch)
        else:
            for switch, its in _by_switch(ops).items():
                self._lane(switch).give(position, its)
        self._given = position

    def _lane(self, switch: SwitchId) -> Lane:
        if switch not in self._lanes:
            self._lanes[switch] = Lane(switch, self._network, self._lanes.pop)
        return self._lanes[switch]

    @property
    def installed(self) -> Position:
        """All that follows from the entries up to this position is in force."""
        return min((lane.confirmed for lane in self._lanes.values()), default=self._given)

    @property
    def failure(self) -> Exception | None:
        """Why the network is behind, if the last attempt to tell some switch something has failed."""
        return next((lane.failure for lane in self._lanes.values() if lane.failure is not None), None)

    @property
    def delays(self) -> dict[SwitchId, SwitchDelay]:
        """How far each of the switches is behind that are."""
        return {switch: lane.delay for switch, lane in self._lanes.items()}

    def until(self, position: Position) -> Awaited:
        """The batches with operations that follow from any entry up to a position."""
        return self._pending(lambda batch: batch.first <= position)

    def following_from(self, position: Position) -> Awaited:
        """The batches with operations that follow from the entry at a position."""
        return self._pending(lambda batch: batch.follows_from(position))

    def overlapping(self, cells: Sequence[Dz], until: Position) -> Awaited:
        """The batches with operations that follow from any entry up to a position and are about a part of the cells."""
        return self._pending(lambda batch: batch.overlaps(cells, until))

    def vacate(self, cells: Sequence[Dz], position: Position) -> None:
        """From the entry at this position on, nobody sends events in the cells; who does next may get other trees."""
        if self.overlapping(cells, position):
            self._vacated.append((cells, position))

    def vacating(self, prefix: Dz) -> Awaited:
        """The batches that remove rules of trees which cells under a prefix have left."""
        self._vacated = [each for each in self._vacated if self.overlapping(*each)]
        found: dict[SwitchId, list[SwitchBatch]] = {}
        for cells, position in self._vacated:
            meant = [meet for cell in cells if (meet := cell.meet(prefix)) is not None]
            for switch, batches in self.overlapping(meant, position).items():
                found.setdefault(switch, []).extend(batches)
        return found

    def _pending(self, is_meant: Callable[[SwitchBatch], bool]) -> Awaited:
        found = {switch: list(filter(is_meant, lane.pending)) for switch, lane in self._lanes.items()}
        return {switch: batches for switch, batches in found.items() if batches}

    async def confirmed(self, awaited: Awaited, patience: float | None = None) -> None:
        """Wait until all of these are in force. Raises an error if one has failed, or after `patience` seconds."""
        switches = {batch.confirmed: switch for switch, batches in awaited.items() for batch in batches}
        if not switches:
            return
        _, late = await asyncio.wait(switches, timeout=patience, return_when=asyncio.FIRST_EXCEPTION)
        for future, switch in switches.items():
            if future.done() and (error := future.exception()) is not None:
                raise _not_installed(switch, str(error)) from error
        for future, switch in switches.items():
            if future in late:
                raise _not_installed(switch, f"no answer in {patience:g} s")

    async def close(self) -> None:
        """Stop, whether or not the switches have confirmed everything."""
        self._is_closed = True
        for lane in list(self._lanes.values()):
            await lane.close()


def _by_switch(ops: Iterable[SwitchOp]) -> dict[SwitchId, list[SwitchOp]]:
    by_switch: dict[SwitchId, list[SwitchOp]] = {}
    for op in ops:
        by_switch.setdefault(op.switch, []).append(op)
    return by_switch


def _large_batches(
    position: Position, ops: Iterable[SwitchOp], loop: asyncio.AbstractEventLoop
) -> dict[SwitchId, SwitchBatch]:
    """The operations of each switch as a batch, to be waited for on this event loop."""
    batches = {}
    for switch, its in _by_switch(ops).items():
        batches[switch] = SwitchBatch(loop)
        batches[switch].add(position, its)
        batches[switch].order()
    return batches


def _not_installed(switch: SwitchId, why: str) -> NotInstalled:
    reason = f"the request is durable, but {switch} has not confirmed it: {why}"
    return NotInstalled(reason, field="switch", value=switch)

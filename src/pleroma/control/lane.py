"""The way to one switch: its operations in the order of the log, as many at once as have come together.

Each switch has a lane of its own, so a switch that does not answer keeps nobody waiting but those who rely on it
(Bhowmik et al. 2017, IV-B).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

from pleroma.control.log.durable_log import Position
from pleroma.control.southbound import Southbound
from pleroma.control.switch_batch import SwitchBatch
from pleroma.errors import NotInstalled
from pleroma.routing import SwitchId, SwitchOp

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
        self._waiting = [SwitchBatch()]
        """Batches that are not sent yet, at least one. What comes is added to the last."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"lane {switch}")

    def give(self, position: Position, ops: Sequence[SwitchOp]) -> None:
        self._waiting[-1].add(position, ops)

    def give_batch(self, batch: SwitchBatch) -> None:
        """Send a batch after all others."""
        self._waiting.append(batch)

    @property
    def pending(self) -> list[SwitchBatch]:
        """What the switch has not confirmed: the batch on its way, if there is one, before those that wait."""
        return [batch for batch in (self._sent, *self._waiting) if batch]

    @property
    def confirmed(self) -> Position:
        """Whatever follows for the switch from the entries up to this position is in force."""
        return Position(self.pending[0].first - 1)

    @property
    def delay(self) -> SwitchDelay:
        pending = self.pending
        seconds = asyncio.get_running_loop().time() - pending[0].since
        return SwitchDelay(self.confirmed, sum(map(len, pending)), seconds, self.failure)

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
        while (batch := self._take()) is not None:
            self._sent = batch
            try:
                if ops := batch.ops:
                    await self._network.install(ops)
            except Exception as error:
                self.failure = error
                self._sent = None
                batch.fail(error)
                self._waiting = [reduce(SwitchBatch.then, self._waiting, batch)]
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_INSTALL_RETRY_SECONDS)
            else:
                self.failure = self._sent = None
                pause = FIRST_INSTALL_RETRY_SECONDS
                batch.confirmed.set_result(None)
        self._on_end(self._switch)

    def _take(self) -> SwitchBatch | None:
        """The next batch with operations, if there is one; another may gather behind it.

        After a failure, all that came since goes along: it may be what helps, such as a table that fits.
        """
        if self.failure is not None:
            self._waiting = [reduce(SwitchBatch.then, self._waiting)]
        while self._waiting:
            batch = self._waiting.pop(0)
            if batch:
                self._waiting = self._waiting or [SwitchBatch()]
                return batch
        return None

"""The way down to the switches: operations in the order of the log, as many at once as have come together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from pleroma.control.log.entry import LOG_START, Position
from pleroma.errors import NotInstalled
from pleroma.routing import SwitchOp

FIRST_INSTALL_RETRY_SECONDS = 0.05
MAX_INSTALL_RETRY_SECONDS = 5.0


class Southbound(Protocol):
    """A network that carries out operations."""

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """On return all are in force. After an error the same operations come again, perhaps with further ones."""


class Installer:
    """Sends the operations that it is given to the network, in order. While one batch is on its way, the next gathers.

    A batch that fails is tried again until it succeeds: the state is durable, so the network has to follow. Callers who
    wait for the batch are told after the first failure. A batch is complete when `also_wait_for`, if given, has
    returned too.
    """

    def __init__(
        self,
        network: Southbound,
        installed: Position = LOG_START,
        also_wait_for: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.installed = installed
        """All up to this position is in force."""
        self.failure: Exception | None = None
        """Why the network is behind, while it is."""
        self._network = network
        self._also_wait_for = also_wait_for
        self._ops: list[SwitchOp] = []
        self._given = installed
        self._sending = installed
        self._waiting_for_sent: list[asyncio.Future[None]] = []
        self._waiting_for_next: list[asyncio.Future[None]] = []
        self._work = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="installer")

    def give(self, position: Position, ops: Sequence[SwitchOp]) -> None:
        """Have the operations sent that follow from the entry at this position, or from a change of the network."""
        self._ops += ops
        self._given = position
        self._work.set()

    async def reached(self, position: int) -> None:
        """Wait until all up to a position is in force."""
        if position <= self.installed:
            return
        waiting = self._waiting_for_sent if position <= self._sending else self._waiting_for_next
        if not waiting:
            waiting.append(asyncio.get_running_loop().create_future())
        try:
            await asyncio.shield(waiting[0])
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reason = f"the request is durable, but the network has not confirmed it: {error}"
            raise NotInstalled(reason, field="network", value=position) from error

    async def close(self) -> None:
        """Stop, whether or not the network has confirmed everything."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        _fail(self._waiting_for_sent + self._waiting_for_next, NotInstalled("the controller is closing"))

    async def _run(self) -> None:
        while True:
            if self._given == self.installed and not self._ops:
                self._work.clear()
                await self._work.wait()
            await self._install_batch()
            self.failure = None
            self.installed = self._sending
            for future in self._waiting_for_sent:
                future.set_result(None)
            self._waiting_for_sent = []

    async def _install_batch(self) -> None:
        """Send what has gathered, until it succeeds."""
        ops: list[SwitchOp] = []
        pause = FIRST_INSTALL_RETRY_SECONDS
        while True:
            ops += self._ops  # after a failure, what came since may be what helps, such as a table that fits
            self._ops = []
            self._sending = self._given
            self._waiting_for_sent += self._waiting_for_next
            self._waiting_for_next = []
            try:
                if ops:
                    await self._network.install(ops)
                if self._also_wait_for is not None:
                    await self._also_wait_for()
                return
            except Exception as error:
                self.failure = error
                _fail(self._waiting_for_sent, error)
                self._waiting_for_sent = []
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_INSTALL_RETRY_SECONDS)


def _fail(waiting: list[asyncio.Future[None]], error: Exception) -> None:
    for future in waiting:
        future.set_exception(error)
        future.exception()  # it is no mistake if nobody asks any more

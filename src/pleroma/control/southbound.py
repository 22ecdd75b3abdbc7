"""The way down to the switches: flow operations in the order of the log, as many at once as have come together."""

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
    """Sends what it is given to the network, in order. While one batch is on its way, the next one gathers.

    A batch that fails is tried again until it succeeds: the state is durable, so the network has to follow. Those who
    wait for it are told after the first failure. `settled`, if given, is waited for besides: whoever else has to know.
    """

    def __init__(
        self,
        network: Southbound,
        installed: Position = LOG_START,
        settled: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.installed = installed
        """All up to this position is in force."""
        self.failure: Exception | None = None
        """Why the network is behind, while it is."""
        self._network = network
        self._settled = settled
        self._ops: list[SwitchOp] = []
        self._given = installed
        self._sending = installed
        self._flying: list[asyncio.Future[None]] = []
        self._gathering: list[asyncio.Future[None]] = []
        self._work = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="installer")

    def give(self, position: Position, ops: Sequence[SwitchOp]) -> None:
        """What the entry at this position demands, or a change of the network after it."""
        self._ops += ops
        self._given = position
        self._work.set()

    async def reached(self, position: int) -> None:
        """Until all up to a position is in force."""
        if position <= self.installed:
            return
        waiting = self._flying if position <= self._sending else self._gathering
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
        _settle(self._flying + self._gathering, NotInstalled("the controller is closing"))

    async def _run(self) -> None:
        pause = FIRST_INSTALL_RETRY_SECONDS
        while True:
            if self._given == self.installed and not self._ops:
                self._work.clear()
                await self._work.wait()
            ops: list[SwitchOp] = []
            while True:
                ops += self._ops  # after a failure, what came since may be what helps, such as a table that fits
                self._ops = []
                self._sending = self._given
                self._flying += self._gathering
                self._gathering = []
                try:
                    if ops:
                        await self._network.install(ops)
                    if self._settled is not None:
                        await self._settled()
                    break
                except Exception as error:
                    self.failure = error
                    self._flying = _settle(self._flying, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, MAX_INSTALL_RETRY_SECONDS)
            pause, self.failure = FIRST_INSTALL_RETRY_SECONDS, None
            self.installed = self._sending
            self._flying = _settle(self._flying)


def _settle(waiting: list[asyncio.Future[None]], error: Exception | None = None) -> list[asyncio.Future[None]]:
    """Nobody of these waits any more; what is left is nothing."""
    for future in waiting:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # it is no mistake if nobody asks any more
    return []

"""The way down to the switches: flow operations in the order of the log, as many at once as have come together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pleroma.control.entry import START, Position
from pleroma.errors import NotInstalled
from pleroma.routing import FlowOp

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


class Southbound(Protocol):
    """A network that carries out flow operations."""

    async def install(self, ops: Sequence[FlowOp]) -> None:
        """On return all are in force. After an error the same operations come again."""


class Installer:
    """Sends what it is given to the network, in order. While one batch is on its way, the next one gathers.

    A batch that fails is tried again until it succeeds: the state is durable, so the network has to follow. Those who
    wait for it are told after the first failure.
    """

    def __init__(self, network: Southbound, installed: Position = START) -> None:
        self.installed = installed
        """All up to this position is in force."""
        self.failure: Exception | None = None
        """Why the network is behind, while it is."""
        self._network = network
        self._ops: list[FlowOp] = []
        self._given = installed
        self._sending = installed
        self._flying: asyncio.Future[None] | None = None
        self._gathering: asyncio.Future[None] | None = None
        self._work = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="installer")

    def give(self, position: Position, ops: Sequence[FlowOp]) -> None:
        """What the entry at this position demands."""
        self._ops += ops
        self._given = position
        self._work.set()

    async def reached(self, position: int) -> None:
        """Until all up to a position is in force."""
        if position <= self.installed:
            return
        loop = asyncio.get_running_loop()
        if position <= self._sending:
            if self._flying is None:
                self._flying = loop.create_future()
            shared = self._flying
        else:
            if self._gathering is None:
                self._gathering = loop.create_future()
            shared = self._gathering
        try:
            await asyncio.shield(shared)
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
        _settle(self._flying, NotInstalled("the controller is closing"))
        _settle(self._gathering, NotInstalled("the controller is closing"))

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            if self._given == self.installed:
                self._work.clear()
                await self._work.wait()
            ops, self._ops = self._ops, []
            self._sending = self._given
            self._flying, self._gathering = self._gathering, None  # the batch before has landed
            while True:
                try:
                    if ops:
                        await self._network.install(ops)
                    break
                except Exception as error:
                    self.failure = error
                    _settle(self._flying, error)
                    self._flying = None
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
            pause, self.failure = FIRST_PAUSE, None
            self.installed = self._sending
            _settle(self._flying)
            self._flying = None


def _settle(future: asyncio.Future[None] | None, error: Exception | None = None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # it is no mistake if nobody waits any more

"""A host agent at work: its two sockets, the programs behind them, and what is done now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from pleroma.client.client import BUSY_ATTRIBUTION_SECONDS, IDLE_ATTRIBUTION_SECONDS
from pleroma.client.links.native_link import NativeLink
from pleroma.client.links.network_link import HostAttachment, NetworkLink
from pleroma.errors import PleromaError, SetupError
from pleroma.host_agent.agent_settings import AgentSettings
from pleroma.host_agent.controller_calls import ControllerCalls, ProgramCalls
from pleroma.host_agent.local_exchange import LocalExchange
from pleroma.host_agent.local_programs import LocalProgram, LocalPrograms
from pleroma.host_agent.program_listener import ProgramListener
from pleroma.host_agent.relay_listener import RelayListener
from pleroma.host_agent.relayed_calls import RelayedCalls
from pleroma.wire.agent_socket import events_path

AGENT_SWEEP_SECONDS = 1.0
"""Between two looks at programs that are late, and two notices to a program."""

log = logging.getLogger("pleroma.agent")

OpenLink = Callable[[HostAttachment, Callable[[bytes], None]], NetworkLink]


class HostAgent:
    """Serves programs from being entered until it is left."""

    def __init__(
        self, settings: AgentSettings, calls: ProgramCalls | None = None, open_link: OpenLink = NativeLink
    ) -> None:
        self._settings = settings
        self._given_calls = calls
        self._outdated: set[str] = set()
        self.exchange = LocalExchange(open_link, self._outdated.add)
        self.programs = LocalPrograms(settings.limits.max_programs, self._forget)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        settings, limits = self._settings, self._settings.limits
        async with AsyncExitStack() as stack:
            calls = self._given_calls
            if calls is None:
                calls = own = ControllerCalls(settings.url, settings.host)
                stack.push_async_callback(own.close)
            relayed = RelayedCalls(calls, self.programs, self.exchange, asyncio.get_running_loop().time)
            path = Path(settings.socket)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SetupError(f"cannot be made: {error}", field="socket", value=str(path.parent)) from None
            stack.callback(self.exchange.close)
            stack.callback(self._end_all)
            beside = Path(events_path(settings.socket))
            events = ProgramListener(beside, settings.group, self.programs, self.exchange, limits.max_queue_bytes)
            stack.enter_context(events)
            await stack.enter_async_context(RelayListener(path, settings.group, relayed.answer, limits))
            for work in (self._sweep(relayed, events), self._cover()):
                task = asyncio.create_task(work)
                stack.push_async_callback(_cancelled, task)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _forget(self, program: LocalProgram) -> None:
        self.exchange.withdraw(program, program.registered)

    def _end_all(self) -> None:
        for program in self.programs:
            self.programs.end(program)

    async def _sweep(self, relayed: RelayedCalls, events: ProgramListener) -> None:
        while True:
            await asyncio.sleep(AGENT_SWEEP_SECONDS)
            try:
                relayed.expire()
                events.expire()
                for program in self.programs:
                    self.exchange.tell(program)
                for name in list(self._outdated):
                    self._outdated.discard(name)
                    await relayed.read_plan(name)
            except PleromaError as error:
                log.info("%s", error)
            except Exception:  # a fault of ours must not end what is done for all programs
                log.exception("a fault in the agent")

    async def _cover(self) -> None:
        """Find the cells of each subscription, between other things."""
        while True:
            is_busy = self.exchange.schemas.cover_next()
            await asyncio.sleep(BUSY_ATTRIBUTION_SECONDS if is_busy else IDLE_ATTRIBUTION_SECONDS)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

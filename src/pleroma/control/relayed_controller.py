"""What a gate has in the place of a controller: it appends commands itself, and computes no rules.

The process that leads follows the same log and tells the switches; it is asked when a command is in force there. A gate
knows all that the log says, so it checks rights and limits, finds regions and answers by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, Self

from pleroma.background import in_background
from pleroma.control.control_state import ControlState
from pleroma.control.controller import SNAPSHOT_EVERY_ENTRIES, relied_on
from pleroma.control.log.durable_log import Log, Position
from pleroma.control.logged_state import LoggedState
from pleroma.control.many_commands import KeyedCommand, carried_out
from pleroma.control.state.command import Command, Lead
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.result import Done, Result
from pleroma.errors import LogError, PleromaError
from pleroma.index import NOTHING
from pleroma.routing import Topology


class Confirmations(Protocol):
    """Knows when commands are in force on the switches."""

    async def in_force(self, position: Position, id: str | None, epoch: int | None, patience: float | None) -> None:
        """Wait until all is in force that the answer to the command at a position relies on."""


class RelayedController:
    """Use `RelayedController.open`."""

    def __init__(self, logged: LoggedState, confirmations: Confirmations) -> None:
        self._logged = logged
        self._confirmations = confirmations
        logged.follow_others()

    @classmethod
    async def open(cls, log: Log, topology: Topology, settings: ControlSettings, confirmations: Confirmations) -> Self:
        """Follow a shared log. It is closed with the controller."""
        opened = await in_background(LoggedState.open, log, topology, settings, SNAPSHOT_EVERY_ENTRIES, NOTHING)
        return cls(opened, confirmations)

    @property
    def state(self) -> ControlState:
        self._logged.settle()
        return self._logged.state

    def on_lead(self, listener: Callable[[Lead], None]) -> None:
        """Have the listener called when a process begins to lead."""

        async def hear(_: Position, command: Command, result: Result) -> None:
            if isinstance(command, Lead) and isinstance(result, Done):
                listener(command)

        self._logged.subscribe(hear)

    @property
    def lead(self) -> Lead | None:
        """The process that leads, as the log says; can be read at any time."""
        return self._logged.state.lead

    @property
    def astray(self) -> asyncio.Event:
        """Set when the state no longer follows the log, and never will."""
        return self._logged.astray

    @property
    def log_failure(self) -> LogError | None:
        """Why the last command could not be written, or why those of other processes cannot be read at the moment."""
        return self._logged.log_failure

    async def reached(self, position: Position) -> None:
        """Wait until the state holds the entry at a position."""
        await self._logged.reached(position)

    @property
    def position(self) -> Position:
        return self._logged.position

    async def settled(self) -> None:
        await self._logged.settled()

    async def submit(self, command: Command, key: str | None = None, patience: float | None = None) -> Done:
        """As that of a controller: on return the command is durable, and in force on all switches it relies on."""
        position, done = await self._logged.submit(command, key)
        await self._confirmations.in_force(position, *relied_on(command, done), patience)
        return done

    async def submit_many(
        self, commands: Iterable[KeyedCommand], patience: float | None = None
    ) -> list[Done | PleromaError]:
        return await carried_out(self.submit, commands, patience)

    async def close(self) -> None:
        await self._logged.close(with_snapshot=False)

"""The controller: the one writer of the log, and the one who tells the switches.

A request is checked, made durable, folded into the state, and installed on the network; then it is answered. Whatever
moment the process dies at, the log holds all that was answered, and a new process comes to the same state from it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pleroma.control.client_counters import ClientCounters
from pleroma.control.control_state import ControlState
from pleroma.control.feed import Feed
from pleroma.control.feed_items import describe, flows_item
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log.entry import LOG_START, Appended, Conflict, Entry, Position, Repeated
from pleroma.control.log.group_commit import GroupCommit
from pleroma.control.log.sqlite_log import Log
from pleroma.control.southbound import Installer, Southbound
from pleroma.control.state.command import (
    Begin,
    ChangePlan,
    Command,
    Expire,
    RemovePrincipal,
    Withdraw,
    canonical,
    command_from_json,
    written,
)
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.result import CommandRefused, Done, Result
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.control.transition.plan_change_runner import PlanChangeRunner
from pleroma.errors import ControlError, ControllerClosed, KeyConflict, LogError, PleromaError
from pleroma.routing import Host, Topology

LOG_FILE_NAME = "control.sqlite"
SNAPSHOT_EVERY_ENTRIES = 10_000
CLOSING_INSTALL_SECONDS = 5.0
"""How many seconds closing waits for a network that does not answer."""


@dataclass(slots=True, eq=False)
class _Call:
    """One who waits for what becomes of an entry."""

    body: bytes
    key: str | None
    command: Command
    result: Result | None = None


class Controller:
    """Use `Controller.open`, best with `async with`."""

    def __init__(
        self, log: Log, state: ControlState, answers: KeptAnswers, after: Position, snapshot_every: int
    ) -> None:
        self.state = state
        self.feed = Feed()
        self.client_counters = ClientCounters()
        self.snapshot_failure: LogError | None = None
        """Why the last snapshot could not be saved. The log holds everything nevertheless."""
        self._answers = answers
        self._calls: dict[int, _Call] = {}  # by the identity of the body, which apply gets as it was appended
        self._installer: Installer | None = None
        self._plan_changes: PlanChangeRunner | None = None
        self._closing = False
        self._snapshot_every = snapshot_every
        self._saved = after
        self._saving: asyncio.Task[None] | None = None
        self._commit = GroupCommit(log, self._apply, after=after)

    @classmethod
    async def open(
        cls,
        folder: str | Path,
        topology: Topology,
        network: Southbound,
        settings: ControlSettings | None = None,
        *,
        snapshot_every: int = SNAPSHOT_EVERY_ENTRIES,
        routing_on: Callable[[Iterable[Host]], Topology] | None = None,
        settled: Callable[[], Awaitable[None]] | None = None,
    ) -> Self:
        """Go on from what the folder holds, or begin there. On return the network has all rules.

        `routing_on` tells what there is to route on, with given hosts, where that is not simply the topology. What is
        asked for is answered when `settled` has come to its end too.
        """
        settings = settings or ControlSettings()
        log = Log.open(Path(folder) / LOG_FILE_NAME)
        try:
            recovery = log.latest_snapshot()
            if recovery.snapshot is not None:
                state, answers = restore(recovery.snapshot.state, topology, settings)
            else:
                state, answers = ControlState(topology, settings), KeptAnswers()
            if log.head == LOG_START:
                log.append([Entry(_body(Begin(settings.to_json(), state.network), None))])
            controller = cls(log, state, answers, recovery.position, snapshot_every)
        except BaseException:
            log.close()
            raise
        try:
            if routing_on is not None:
                state.rules.route_on(routing_on(state.topology.hosts))
            await network.install(state.rules.everything())
        except BaseException:
            await controller._commit.close()
            raise
        controller._installer = Installer(network, controller.position, settled)
        controller._plan_changes = PlanChangeRunner(state, controller.submit, controller._all_installed)
        return controller

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def position(self) -> Position:
        """The last entry that the state holds."""
        return self._commit.applied

    @property
    def installed(self) -> Position:
        """The last entry that the network has confirmed."""
        return self._installer.installed if self._installer else LOG_START

    @property
    def network_failure(self) -> Exception | None:
        """Why the network is behind, while it is."""
        return self._installer.failure if self._installer else None

    async def submit(self, command: Command, key: str | None = None) -> Done:
        """Carry out a command: on return it is durable and in force on the network. A refusal is raised.

        With a key, the same command may be sent again, also after a restart: it is carried out once, and answered as
        the first time. A command that is refused at once is not kept, so its key stays free.
        """
        if self._closing or self._installer is None:
            raise ControllerClosed("the controller is closed")
        if isinstance(command, Begin):
            raise ControlError("a log begins once")
        if key is None or key not in self._answers:
            error = self.state.check(command)
            if error is not None:
                raise error
        call = _Call(_body(command, key), key, command)
        self._calls[id(call.body)] = call
        try:
            outcome = await self._commit.append(Entry(call.body, key))
        finally:
            del self._calls[id(call.body)]
        match outcome:
            case Conflict():
                raise KeyConflict("the key belongs to another request", field="key", value=key)
            case Appended():
                result = call.result
            case Repeated():
                result = self._answers.at(outcome.position)
        if result is None:
            raise KeyConflict("the key was used too long ago to say what was answered", field="key", value=key)
        if isinstance(result, CommandRefused):
            raise result.error
        await self._installer.reached(outcome.position)
        return result

    @property
    def plan_changes(self) -> PlanChangeRunner:
        if self._plan_changes is None:
            raise ControllerClosed("the controller is closed")
        return self._plan_changes

    async def _all_installed(self) -> None:
        if self._installer is not None:
            await self._installer.reached(self.position)

    def route_on(self, topology: Topology) -> None:
        """Switches or links have come or gone: from now on with what is there. Registrations wait for their hosts."""
        if self._installer is None or self._closing:
            return
        ops, more = self.state.rules.route_on(topology)
        self._installer.give(self.position, [*ops, *more])
        if ops and "flows" in self.feed.wanted:
            self.feed.tell(flows_item(self.position, ops))

    def report(
        self, principal: str, subscriptions: Mapping[str, Mapping[str, int]] | None = None, published: int = 0
    ) -> None:
        """Add to the counters what a client counted."""
        self.client_counters.report(self.state, principal, subscriptions, published)
        if "counters" in self.feed.wanted:
            self.feed.tell(
                {"type": "counters", "principal": principal, "published": published}
                | {"subscriptions": dict(subscriptions or {}), "totals": self.client_counters.totals}
            )

    async def save_snapshot(self) -> Position:
        """Make the next restart short."""
        self._saved = self.position
        return await self._commit.save_snapshot(lambda: snapshot(self.state, self._answers))

    async def close(self) -> None:
        """Answer whom it has taken a command from, save a snapshot, and close the log."""
        if self._closing:
            return
        self._closing = True
        if self._plan_changes is not None:
            await self._plan_changes.close()
        if self._saving is not None:
            await self._saving
        if self._saved < self.position:
            await self._save()
        await self._commit.close()
        if self._installer is not None:
            with suppress(PleromaError, TimeoutError):  # the log has it, and the next start installs it
                await asyncio.wait_for(self._installer.reached(self.position), CLOSING_INSTALL_SECONDS)
            await self._installer.close()
        self.feed.close()

    # -- following the log ---------------------------------------------------------------------------------------

    def _apply(self, position: Position, body: bytes) -> None:
        call = self._calls.get(id(body))
        key, command = _read(body) if call is None else (call.key, call.command)
        result = self.state.apply(position, command)
        if isinstance(command, Begin) and isinstance(result, CommandRefused):
            raise result.error
        if key is not None:
            self._answers.keep(position, key, result)
        if self._installer is None:
            return  # a restart: all rules are installed at its end
        if call is not None:
            call.result = result
        self._installer.give(position, result.switch_ops if isinstance(result, Done) else ())
        if isinstance(result, Done):
            self._forget_counters(command, result)
        if isinstance(command, ChangePlan) and self._plan_changes is not None:
            self._plan_changes.look()
        if self.feed.wanted:
            for item in describe(position, command, result, self.state, self.feed.wanted):
                self.feed.tell(item)
        if position - self._saved >= self._snapshot_every and self._saving is None and not self._closing:
            self._saving = asyncio.get_running_loop().create_task(self._save(), name="snapshot")

    def _forget_counters(self, command: Command, result: Done) -> None:
        match command:
            case Withdraw():
                self.client_counters.forget(command.id)
            case RemovePrincipal() | Expire():
                for each in result.value["withdrawn"]:
                    self.client_counters.forget(each)

    async def _save(self) -> None:
        try:
            await self.save_snapshot()
            self.snapshot_failure = None
        except LogError as error:
            self.snapshot_failure = error
        finally:
            self._saving = None


def _body(command: Command, key: str | None) -> bytes:
    return f'{{"command":{written(command)},"key":{"null" if key is None else canonical(key)}}}'.encode()


def _read(body: bytes) -> tuple[str | None, Command]:
    data = json.loads(body)
    return data["key"], command_from_json(data["command"])

"""The controller: takes commands, has them logged and applied, and tells the switches what follows.

A request is answered when it is durable, and in force on the switches that it relies on. Whatever moment the process
dies at, a new one comes to the same state from the log, and installs the rules that follow from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import structlog

from pleroma.background import in_background
from pleroma.control.client_counters import ClientCounters
from pleroma.control.control_state import ControlState
from pleroma.control.feed import Feed
from pleroma.control.feed_items import command_items, shortened
from pleroma.control.installer import Awaited, Installer
from pleroma.control.lane import SwitchDelay
from pleroma.control.log.durable_log import Log, Position
from pleroma.control.logged_state import LoggedState
from pleroma.control.many_commands import KeyedCommand, carried_out
from pleroma.control.southbound import Southbound
from pleroma.control.state.command import (
    ChangePlan,
    ChooseTrees,
    Command,
    ExtendSchema,
    Lead,
    Register,
    RemoveSchema,
    Rewire,
)
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.people_commands import PeopleCommand
from pleroma.control.state.principals import Principals
from pleroma.control.state.records import SchemaEntry
from pleroma.control.state.result import Done, Result
from pleroma.control.state.tree_choice import TreeChoice
from pleroma.control.transition.plan_change_runner import PlanChangeRunner, PlanChangeTiming
from pleroma.errors import ControllerClosed, LogError, NotInstalled, NotLeading, PleromaError
from pleroma.index import Dz
from pleroma.routing import SwitchId, Topology
from pleroma.routing.family import left_trees

log = structlog.get_logger("pleroma.control")

SNAPSHOT_EVERY_ENTRIES = 10_000
MAX_REST_SECONDS = 1.0
"""After a change of the network, the next one waits at most so long."""
CLOSING_INSTALL_SECONDS = 5.0
"""How long closing waits for a network that does not answer."""


class Controller:
    """Use `Controller.open`, best with `async with`."""

    def __init__(
        self,
        folder: Path,
        logged: LoggedState,
        network: Southbound,
        also_wait_for: Callable[[], Awaitable[None]] | None,
        timing: PlanChangeTiming,
    ) -> None:
        """The network has all rules that follow from the logged state."""
        state = logged.state
        self.folder = folder
        """Where this process keeps what it needs, the log too unless that is shared."""
        self.feed = Feed()
        self.client_counters = ClientCounters(state.registrations, state.principals)
        self._logged = logged
        self._closing = False
        self._is_deposed = False
        self._also_wait_for = also_wait_for
        self._rewiring = asyncio.Lock()
        self._families = state.router.families
        """Those that the last command left."""
        self._reported: Rewire = state.there
        """What there is of the network, as it was last reported."""
        self._retry: asyncio.Task[None] | None = None
        """Says again what the log could not be told of the network."""
        self._rest_until = 0.0
        """Before this time of the event loop, no other change of the network is taken."""
        self._installer = Installer(network, logged.position)
        self._on_people: list[Callable[[], None]] = []
        self._on_lead: list[Callable[[Lead], None]] = []
        self._on_extended: list[Callable[[SchemaEntry], None]] = []
        self.plan_changes = PlanChangeRunner(state.plans, state.registrations, self.submit, self.confirmed, timing)
        logged.subscribe(self._follow)
        logged.follow_others()

    @classmethod
    async def open(
        cls,
        folder: str | Path,
        topology: Topology,
        network: Southbound,
        settings: ControlSettings | None = None,
        *,
        shared: Log | None = None,
        lead: Lead | None = None,
        snapshot_every: int = SNAPSHOT_EVERY_ENTRIES,
        resume: Callable[[ControlState], Rewire | None] | None = None,
        also_wait_for: Callable[[], Awaitable[None]] | None = None,
        timing: PlanChangeTiming | None = None,
    ) -> Self:
        """Go on from what the folder holds, or begin there. On return the network has all rules.

        With a `shared` log, that one is followed, and `lead` says in it that this process leads. The log is closed with
        the controller. `resume` is called with the state
        that was found, before the network is given its rules. It says what there is of the network, if it knows that
        and the log does not, as logs of earlier versions. A request is answered when `also_wait_for`, too, has returned
        after its rules were installed.
        """
        logged = await _opened(shared or Path(folder), topology, settings or ControlSettings(), snapshot_every)
        try:
            if lead is not None:
                logged.leadership, _ = await logged.submit(lead)
            there = None if resume is None else resume(logged.state)
            if there is not None and shared is None:
                await logged.apply_unlogged(there)
            await network.install(await in_background(logged.state.rules.everything))
        except BaseException:
            await logged.close(with_snapshot=False)
            raise
        return cls(Path(folder), logged, network, also_wait_for, timing or PlanChangeTiming())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def state(self) -> ControlState:
        """The state, with nobody changing it. Read it right after `settled`, or the event loop may stand still."""
        self._logged.settle()
        return self._logged.state

    async def settled(self) -> None:
        """Wait until no large command is being folded into the state."""
        await self._logged.settled()

    @property
    def principals(self) -> Principals:
        """To be looked up in at any time, also while the state changes."""
        return self._logged.state.principals

    @property
    def topology(self) -> Topology:
        """The network as it was described, with the hosts that were learned; can be read at any time."""
        return self._logged.state.topology

    @property
    def position(self) -> Position:
        """The last entry that the state holds."""
        return self._logged.position

    @property
    def installed(self) -> Position:
        """The last entry that the network has confirmed."""
        return self._installer.installed

    @property
    def network_failure(self) -> Exception | None:
        """Why the network is behind, if the last attempt to change a switch has failed."""
        return self._installer.failure

    @property
    def delays(self) -> Mapping[SwitchId, SwitchDelay]:
        """How far each of the switches is behind that have not confirmed everything."""
        return self._installer.delays

    @property
    def astray(self) -> asyncio.Event:
        """Set when the state no longer follows the log, and never will."""
        return self._logged.astray

    @property
    def log_failure(self) -> LogError | None:
        """Why the last command could not be written, or why those of other processes cannot be read at the moment."""
        return self._logged.log_failure

    @property
    def snapshot_failure(self) -> LogError | None:
        """Why the last snapshot could not be saved. The log holds everything nevertheless."""
        return self._logged.snapshot_failure

    async def submit(self, command: Command, key: str | None = None, patience: float | None = None) -> Done:
        """Carry out a command: on return it is durable, and in force on all switches it relies on. A refusal is raised.

        With a key, the same command may be sent again, also after a restart: it is carried out once, and answered as
        the first time. A command that is refused at once is not written, so its key stays free. If a switch has not
        confirmed its part after `patience` seconds, `NotInstalled` names the switch; the command stands nevertheless.
        """
        if self._closing:
            raise ControllerClosed("the controller is closed")
        if isinstance(command, Register) and command.kind == "advertisement":
            await self._old_trees_are_left(command.schema, patience)
        if isinstance(command, RemoveSchema):
            await self._rules_are_gone(command.schema, patience)
        position, done = await self._logged.submit(command, key)
        await self.settled()
        await self._installer.confirmed(self._relied_on(position, *relied_on(command, done)), patience)
        if self._also_wait_for is not None:
            await self._also_wait_for()
        return done

    async def submit_many(
        self, commands: Iterable[KeyedCommand], patience: float | None = None
    ) -> list[Done | PleromaError]:
        """Carry out commands with their keys, in this order and each as `submit` does: what it came to, or why not."""
        return await carried_out(self.submit, commands, patience)

    async def _old_trees_are_left(self, schema: str, patience: float | None) -> None:
        """Wait until no switch has rules of trees that events of a schema have left.

        A switch that has such rules would send what is advertised next along an old tree, and others along a new one.
        Nothing is written before: the command is taken when they are gone.
        """
        entry = self.state.schemas.get(schema)
        while entry is not None and (awaited := self._installer.vacating(entry.prefix)):
            try:
                await self._installer.confirmed(awaited, patience)
            except NotInstalled as error:
                reason = f"not taken: {error.value} has not confirmed that rules of an earlier tree are gone"
                raise NotInstalled(reason, field="switch", value=error.value) from None

    async def _rules_are_gone(self, schema: str, patience: float | None) -> None:
        """Wait until no switch has rules of a schema that nothing is registered of.

        Another schema may get its share of the addresses next. Nothing is written before.
        """
        entry = self.state.schemas.get(schema)
        if entry is None:
            return
        awaited = self._installer.overlapping(self.state.plans.own_prefixes(entry), self.position)
        try:
            await self._installer.confirmed(awaited, patience)
        except NotInstalled as error:
            reason = f"not taken: {error.value} has not confirmed that rules of {schema} are gone"
            raise NotInstalled(reason, field="switch", value=error.value) from None

    async def in_force(self, position: Position, id: str | None, epoch: int | None, patience: float) -> None:
        """Wait until all is in force that the answer to a command relies on, which another process has appended.

        If it has registered something, `id` and `epoch` are those of the answer.
        """
        await self._logged.reached(position)
        try:
            await self._installer.confirmed(self._relied_on(position, id, epoch), patience)
        except NotInstalled:
            if self._is_deposed:
                raise NotLeading("another process leads the control plane by now") from None
            raise

    def _relied_on(self, position: Position, id: str | None, epoch: int | None) -> Awaited:
        """What the answer to the command at a position waits for.

        It waits for what the command itself changes on switches. A registration may also rely on changes that others
        have caused before: a second subscription to the same events at a host changes nothing, and gets its events by
        the rules of the first one. So it waits for all earlier changes that concern its cells, on the switches that lie
        between its host and those with whom it has events in common.
        """
        if self._is_deposed:
            reason = "the request is durable, but another process tells the switches by now"
            raise NotInstalled(reason, field="position", value=position)
        if self.installed == self.position:
            return {}
        own = self._installer.following_from(position)
        registered = None if id is None else self.state.registrations.get(id)
        if registered is None:
            return own
        inputs = self.state.plans.inputs([registered])
        # if another plan has come since, its rules count, and the command that brought it is a later one
        until = position if registered.entry.epoch == epoch else self.position
        others = self._installer.overlapping(inputs.cells, until)
        serving = self.state.rules.serving(inputs, others.keys() - own.keys())
        return {**own, **{switch: others[switch] for switch in serving}}

    async def confirmed(self, cells: Sequence[Dz] | None = None) -> None:
        """Wait until switches have confirmed all that the state holds now, or all of it that is about these cells."""
        await self.settled()
        installer, now = self._installer, self.position
        await installer.confirmed(installer.until(now) if cells is None else installer.overlapping(cells, now))

    async def rewire(self, there: Rewire) -> None:
        """Switches or links have come or gone: route on what is there. Registrations wait for hosts that are not.

        On return the rules that follow are on their way to the switches. Where the log cannot be written, they are so
        nevertheless: events must find their way whatever the disk does. A call waits for those before it, and the last
        one decides; what was different only in between is left out. A port that comes and goes without end leaves time
        for requests: after each call there is a rest of as long as it took.
        """
        self._reported = there
        async with self._rewiring:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(self._rest_until - clock())
            if self._closing or self._reported == self.state.there:
                return
            there, started = self._reported, clock()
            try:
                await self._logged.submit(there)
            except NotLeading:
                return  # it is for another process to say now
            except LogError as error:
                log.warning("the network has changed, and the log cannot say so", reason=str(error))
                if self._logged.is_shared:  # others follow the log, too: it has to say so before anybody acts on it
                    asyncio.get_running_loop().call_later(MAX_REST_SECONDS, self._rewire_again)
                else:
                    await self._logged.apply_unlogged(there)
            self._rest_until = clock() + min(clock() - started, MAX_REST_SECONDS)

    def _rewire_again(self) -> None:
        if not self._closing:
            self._retry = asyncio.get_running_loop().create_task(self.rewire(self._reported), name="rewire")

    async def choose_trees(self, trees: TreeChoice) -> None:
        """Deal trees out in this way, and move the schemas that are on other trees, one after the other."""
        if trees != self.state.trees:
            await self.submit(ChooseTrees(trees))
        for entry in self.schemas_on_other_trees:
            await self.plan_changes.finished()
            await self.plan_changes.change(ChangePlan(entry.name, entry.index, "versioning", trees=()))

    @property
    def schemas_on_other_trees(self) -> list[SchemaEntry]:
        """Those whose trees were dealt out in another way than trees are dealt out now."""
        return [entry for entry in self.state.schemas.values() if entry.trees != self.state.trees]

    def report(
        self,
        principal: str,
        subscriptions: Mapping[str, Mapping[str, int]] | None = None,
        sums: Mapping[str, int] | None = None,
        batch: tuple[str, int] | None = None,
    ) -> bool:
        """Add to the counters what a client counted; False if this batch of a sender's reports was added before."""
        is_new = self.client_counters.report(principal, subscriptions, sums, batch)
        if is_new and "counters" in self.feed.wanted:
            self.feed.tell(
                {"type": "counters", "principal": principal, "published": 0, **(sums or {})}
                | shortened({"subscriptions": subscriptions or {}})
                | {"totals": self.client_counters.totals}
            )
        return is_new

    def on_extended(self, listener: Callable[[SchemaEntry], None]) -> None:
        """Have the listener called when a schema has gone over to a later version. It must raise no error."""
        self._on_extended.append(listener)

    def on_people(self, listener: Callable[[], None]) -> None:
        """Have the listener called after each change of principals, their tokens or groups. It must raise no error."""
        self._on_people.append(listener)

    def on_lead(self, listener: Callable[[Lead], None]) -> None:
        """Have the listener called when a process begins to lead; from then on no other does."""
        self._on_lead.append(listener)

    async def save_snapshot(self) -> Position:
        """Save the state, so that the next restart has little to apply."""
        return await self._logged.save_snapshot()

    async def depose(self) -> None:
        """Tell switches nothing more: another process does. What was not confirmed is for that one to answer."""
        self._is_deposed = True
        await self._installer.close()

    async def close(self) -> None:
        """Answer whom it has taken a command from, save a snapshot, and close the log."""
        if self._closing:
            return
        self._closing = True
        await self.plan_changes.close()
        await self._logged.close(with_snapshot=not self._is_deposed)
        if not self._is_deposed:
            with suppress(PleromaError, TimeoutError):  # the log has it, and the next start installs it
                await asyncio.wait_for(self.confirmed(), CLOSING_INSTALL_SECONDS)
            await self._installer.close()
        self.feed.close()

    async def _follow(self, position: Position, command: Command, result: Result) -> None:
        """Hand on what follows from a command that was applied."""
        if self._is_deposed:
            return
        await self._installer.give(position, result.switch_ops if isinstance(result, Done) else ())
        before, self._families = self._families, self.state.router.families
        is_repair = isinstance(command, Rewire) and bool(self.state.registrations)  # events go on meanwhile
        if before is not self._families and not is_repair:
            self._installer.vacate(left_trees(before, self._families).members, position)
        if isinstance(command, ChangePlan):
            self.plan_changes.wake()
        if isinstance(command, Lead):
            for deposed in self._on_lead:
                deposed(command)
        if isinstance(command, PeopleCommand):
            for listener in self._on_people:
                listener()
            self.feed.stir()  # some may read no longer
        if isinstance(command, ExtendSchema) and isinstance(result, Done) and "unchanged" not in result.value:
            for hearing in self._on_extended:
                hearing(self.state.schemas[command.schema.name])
        if self.feed.wanted:
            for item in command_items(position, command, result, self.feed.wanted):
                self.feed.tell(item)


def relied_on(command: Command, done: Done) -> tuple[str | None, int | None]:
    """The registration whose rules an answer relies on, and the epoch of its plan, if it is about one."""
    return (done.value["id"], done.value["epoch"]) if isinstance(command, Register) else (None, None)


async def _opened(where: Log | Path, topology: Topology, settings: ControlSettings, snapshot_every: int) -> LoggedState:
    """Open the log in another thread: with many registrations that takes seconds, and switches want to be answered."""
    opening = asyncio.ensure_future(in_background(LoggedState.open, where, topology, settings, snapshot_every))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await (await opening).close(with_snapshot=False)
        raise

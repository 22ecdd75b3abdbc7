"""The controller's own loop: looks at every schema every few seconds, and moves it to a better plan when there is one.

It stands back while a watcher of the lake claims a schema, and while any plan changes. A plan is handed over as the
successor of the epoch that it was made to follow, so of two plans for the same epoch one is refused, whoever made it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Self

import structlog

from pleroma.control import ChangePlan, Controller, SchemaEntry
from pleroma.errors import ControllerClosed, PlanChanging, PlanMoved, PleromaError
from pleroma.replanning.live_replanner import Look
from pleroma.replanning.planning_worker import Ask
from pleroma.replanning.proposals import Proposal
from pleroma.replanning.situation import limits_that_count
from pleroma.routing import Topology
from pleroma.service.collecting.network_landing import KnownNetwork
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.replanning.planning_process import PlanningProcess
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.service.replanning.schema_mirror import SchemaMirror
from pleroma.service.replanning.watcher_claims import WatcherClaims

log = structlog.get_logger("pleroma.service")


class PlanLoop:
    """As `async with`, it re-plans until it is left."""

    def __init__(
        self,
        controller: Controller,
        network: KnownNetwork,
        samples: SampleIntake,
        claims: WatcherClaims,
        settings: ReplanningSettings,
    ) -> None:
        self.looks: dict[str, Look] = {}
        """By schema, what the last look found."""
        self.changes: Counter[str] = Counter()
        """By schema, how many plans of this loop came into force."""
        self.failure: str | None = None
        """Why a schema could not be looked at, in one line, while that is so."""
        self._controller = controller
        self._network = network
        self._samples = samples
        self._claims = claims
        self._settings = settings
        self._process = PlanningProcess(settings.max_search_seconds)
        self._mirrors: dict[str, SchemaMirror] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="re-planning")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._process.stop()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._settings.looking.window)
            for entry in list(self._controller.state.schemas.values()):
                try:
                    await self.look(entry)
                    self.failure = None
                except ControllerClosed:
                    return
                except Exception as error:  # whatever it is, requests and events go on, and so do other schemas
                    if self.failure is None:
                        log.warning("a schema cannot be re-planned now", schema=entry.name, reason=str(error))
                    self.failure = f"{entry.name}: {error}"

    async def look(self, entry: SchemaEntry) -> None:
        """Look at a schema once, unless somebody else takes care of it or there is nothing to plan for."""
        if self._stands_back(entry):
            return
        registered = [each for each in self._controller.state.registrations.values() if each.entry is entry]
        if not any(each.kind == "subscription" for each in registered) and entry.name not in self._mirrors:
            return
        await self._process.start()
        mirror = self._mirrors.get(entry.name)
        if mirror is None or mirror.incarnation != self._process.incarnation:
            mirror = self._mirrors[entry.name] = SchemaMirror(self._process.incarnation)
        is_first, events = mirror.is_new, tuple(each.events for each in self._samples.fresh(entry.name))
        news = mirror.news(datetime.now(UTC), entry, registered, self._topology(entry), events)
        try:
            found = await self._process.look(Ask(entry.schema, self._settings.looking, news, is_first))
        except PleromaError:
            self._mirrors.pop(entry.name, None)  # what the process knows of the schema is not certain any more
            raise
        self.looks[entry.name] = found
        if found.proposal is not None:
            await self._hand_over(entry, mirror, found.proposal, found.decision.epoch)

    def _stands_back(self, entry: SchemaEntry) -> bool:
        return self._controller.state.plans.change is not None or self._claims.is_claimed(entry.name)

    async def _hand_over(self, entry: SchemaEntry, mirror: SchemaMirror, found: Proposal, after: int | None) -> None:
        if self._stands_back(entry):
            mirror.handed = "moved", None
            return
        command = ChangePlan(entry.name, found.index, after=after, members=found.members)
        try:
            done = await self._controller.plan_changes.change(command)
        except (PlanMoved, PlanChanging):
            mirror.handed = "moved", None
        except PleromaError as error:
            mirror.handed = "failed", None
            log.warning("a better plan was refused", schema=entry.name, reason=str(error))
        else:
            mirror.handed = "adopted", done["epoch"]
            self.changes[entry.name] += 1
            log.info(
                "a better plan is in force",
                schema=entry.name,
                epoch=done["epoch"],
                waste_before=round(found.before.rate, 3),
                waste_after=round(found.after.rate, 3),
                rules=found.rules,
            )

    def _topology(self, entry: SchemaEntry) -> Topology:
        """The network with the rules that each switch has left for a schema."""
        topology, rooms = self._network.topology(), self._network.rooms()
        if not topology.limits and not rooms:
            return topology
        tables = self._controller.state.router.tables
        used = {switch: sum(not entry.prefix.covers(flow.dz) for flow in table) for switch, table in tables.items()}
        return limits_that_count(topology, rooms, used)

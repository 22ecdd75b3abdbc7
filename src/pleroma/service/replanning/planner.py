"""The planner asks the planning process about a schema, and first tells it what has changed since the last time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Self

from pleroma.content.batch import EventBatch
from pleroma.control import Controller, Registered, SchemaEntry
from pleroma.control.state.tree_choice import SchemaTrees, dealt_under
from pleroma.errors import PleromaError, ServiceError
from pleroma.index import Index
from pleroma.replanning.decisions import Outcome
from pleroma.replanning.live_replanner import Look, PlanForecast
from pleroma.replanning.planning_worker import Ask
from pleroma.replanning.situation import limits_that_count
from pleroma.replanning.trial_search import trial_search
from pleroma.routing import SwitchId, Topology
from pleroma.routing.tree import cable_of
from pleroma.service.collecting.network_landing import KnownNetwork
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.replanning.planning_process import PlanningProcess
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.service.replanning.schema_mirror import SchemaMirror


class Planner:
    """One question at a time. As `async with`, it ends its process when it is left."""

    def __init__(
        self, controller: Controller, network: KnownNetwork, samples: SampleIntake, settings: ReplanningSettings
    ) -> None:
        self.settings = settings
        self._controller = controller
        self._network = network
        self._samples = samples
        self._process = PlanningProcess(settings.max_search_seconds)
        self._mirrors: dict[str, SchemaMirror] = {}
        self._turn = asyncio.Lock()
        self._begun = datetime.now(UTC) - timedelta(seconds=time.monotonic())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._process.close()

    async def warm_up(self) -> None:
        """Have the process compile what searches need, so that the first plan need not wait for that."""
        async with self._turn:
            await self._process.start()
            await self._process.ask(trial_search(self.settings.looking))

    def has_work(self, entry: SchemaEntry) -> bool:
        """Whether anything is subscribed to, or was at the last look."""
        everyone = self._controller.state.registrations.values()
        return entry.name in self._mirrors or any(
            each.entry is entry and each.kind == "subscription" for each in everyone
        )

    def forget(self, schema: str) -> None:
        """The schema was removed: another one of its name is news to the planning process."""
        self._mirrors.pop(schema, None)

    def extend(self, entry: SchemaEntry) -> None:
        """The schema has a later version now: the planning process is told everything about it anew."""
        self.forget(entry.name)

    async def has_newcomers(self, entry: SchemaEntry) -> bool:
        """Whether subscriptions have come since the planning process was told of them last."""
        await self._controller.settled()
        everyone, mirror = self._everyone(), self._mirrors.get(entry.name)
        return await asyncio.to_thread(_has_newcomers, everyone, entry, mirror)

    async def look(self, entry: SchemaEntry, is_calm: bool = False) -> Look:
        """Close a window of a schema, and search for a better plan if there is a reason."""
        found = await self._ask(entry, None, is_calm)
        if not isinstance(found, Look):
            raise ServiceError(f"a look was asked for, and not {type(found).__name__}")
        return found

    async def forecast(self, entry: SchemaEntry, index: Index, members: int) -> PlanForecast:
        """What an index would do with recent events."""
        found = await self._ask(entry, (index, members, self._samples.recent.of(entry.name)))
        if not isinstance(found, PlanForecast):
            raise ServiceError(f"a forecast was asked for, and not {type(found).__name__}")
        return found

    def has_room_beside(self, entry: SchemaEntry, rules_by_switch: Mapping[SwitchId, int]) -> bool:
        """Whether every table that has a limit has room for so many rules beside those in force."""
        tables = self._controller.state.router.tables
        return all(
            sum(entry.prefix.covers(flow.dz) for flow in tables[switch]) + rules_by_switch.get(switch, 0) <= limit
            for switch, limit in self._topology(entry).limits.items()
        )

    def handed(self, entry: SchemaEntry, outcome: Outcome, epoch: int | None = None) -> None:
        """Note what became of the plan or the trees that the last look proposed."""
        if entry.name in self._mirrors:
            self._mirrors[entry.name].handed = outcome, epoch

    async def _ask(
        self, entry: SchemaEntry, plan: tuple[Index, int, EventBatch | None] | None, is_calm: bool = False
    ) -> Look | PlanForecast:
        async with self._turn:
            await self._process.start()
            await self._controller.settled()
            mirror = self._mirrors.get(entry.name)
            if mirror is None or mirror.incarnation != self._process.incarnation:
                mirror = self._mirrors[entry.name] = SchemaMirror(self._process.incarnation)
            is_first = mirror.is_new
            events = tuple(each.events for each in self._samples.fresh(entry.name)) if plan is None else ()
            there = entry.plan, self._topology(entry), self._trees(entry)
            try:
                everyone = self._everyone()
                registered = await asyncio.to_thread(_of_schema, everyone, entry)
                news = await asyncio.to_thread(mirror.news, self._now(), registered, *there, events)
                news = replace(news, is_calm=is_calm)
                return await self._process.ask(Ask(entry.schema, self.settings.looking, news, is_first, plan))
            except PleromaError:
                if plan is None:
                    self._mirrors.pop(entry.name, None)  # what the process knows of the schema is not certain any more
                raise

    def _now(self) -> datetime:
        """The time by a clock that nobody sets: after a step back, all looks would seem too early for as long."""
        return self._begun + timedelta(seconds=time.monotonic())

    def _everyone(self) -> list[Registered]:
        """All registrations of now. There may be very many, so a thread looks at them, while others come and go."""
        return list(self._controller.state.registrations.values())

    def _topology(self, entry: SchemaEntry) -> Topology:
        """The network without the links that are down, with the rules that each switch has left for a schema."""
        topology, rooms = self._network.topology(), self._network.rooms()
        there = set(map(cable_of, self._controller.state.router.topology.links))
        down = [link for link in topology.links if cable_of(link) not in there]
        topology = topology.without(down) if down else topology
        if not topology.limits and not rooms:
            return topology
        state = self._controller.state
        if len(state.schemas) == 1:  # no other has rules, and counting many takes a while
            return limits_that_count(topology, rooms)
        own, tables = entry.prefix, state.router.tables
        used = {switch: sum(not own.covers(flow.dz) for flow in table) for switch, table in tables.items()}
        return limits_that_count(topology, rooms, used)

    def _trees(self, entry: SchemaEntry) -> SchemaTrees:
        """The trees that the schema's events travel on now, and how those of its next version are dealt out."""
        state = self._controller.state
        return SchemaTrees(state.trees, dealt_under(state.router.families, entry.prefix))


def _of_schema(everyone: Sequence[Registered], entry: SchemaEntry) -> list[Registered]:
    return [each for each in everyone if each.entry is entry]


def _has_newcomers(everyone: Sequence[Registered], entry: SchemaEntry, mirror: SchemaMirror | None) -> bool:
    wanted = (each for each in _of_schema(everyone, entry) if each.kind == "subscription")
    return any(mirror is None or not mirror.knows(each) for each in wanted)

"""The first minute of a schema: real clients at the hosts of a running controller, and what comes to the hosts.

Publishers pause every few seconds until all packets have arrived. So every packet that came to a host is of an event
that is known, and waste is a count and no estimate.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from pleroma.arrays.types import Marks
from pleroma.client import Client, Publisher, Subscription
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.experiments.demonstration.running_controller import RunningController, embedded
from pleroma.index import IndexPlan, Waste
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.routing import HostId, Topology, build

TOPOLOGY = "fat-tree:4"
PUBLISHERS = 4
ARRIVAL_SECONDS = 60.0
MEASURED_SECONDS = 10.0
SETTLING_SECONDS = 10.0
"""After so long without a new subscription there is a plan that knows all of them."""
STRETCH_SECONDS = 5.0
"""Waste is counted by stretches of so long."""
MAX_SETTLING_SECONDS = 3.0
"""Packets that have not arrived after so long were lost."""
PLAN_LOOK_SECONDS = 0.25
PLANNING_MODULE = b"pleroma.replanning.planning_worker"


@dataclass(frozen=True, slots=True)
class Scene:
    """What is published, what is subscribed to, and where."""

    schema: Schema
    events: EventBatch
    """In the order in which they are published; the publishers take turns."""
    arriving: int
    """So many of the events are for the time in which subscriptions arrive, the others for the measurement."""
    others: EventBatch
    """Other events of the same kind, for full tuning."""
    filters: tuple[Filter, ...]
    publishers: tuple[HostId, ...]
    homes: tuple[HostId, ...]
    """By subscription."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        events: EventBatch,
        arriving: int,
        others: EventBatch,
        filters: Sequence[Filter],
        seed: int,
    ) -> Scene:
        """Publishers are at random hosts, subscriptions at random others."""
        hosts = [host.name for host in topology().hosts]
        random = np.random.default_rng([seed, 60])
        order = [hosts[at] for at in random.permutation(len(hosts)).tolist()]
        homes = random.integers(PUBLISHERS, len(hosts), len(filters)).tolist()
        placed = tuple(order[at] for at in homes)
        return cls(schema, events, arriving, others, tuple(filters), tuple(order[:PUBLISHERS]), placed)

    def situation(self, subscriptions: int | None = None) -> NetworkSituation:
        """The network with the first so many of the subscriptions, or with all."""
        placed = map(PlacedFilter, self.homes[:subscriptions], self.filters[:subscriptions])
        promised = [PlacedFilter(host, Filter.everything(self.schema)) for host in self.publishers]
        return NetworkSituation.placed(self.schema, placed, topology(), promised)


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `begin` to `end`, in seconds, the events from number `first` to before number `behind` were published."""

    begin: float
    end: float
    first: int
    behind: int
    at_hosts: Waste


@dataclass(slots=True)
class Course:
    """What happened."""

    stretches: list[Stretch] = field(default_factory=list)
    plans: dict[int, tuple[float, PlanInForce]] = field(default_factory=dict)
    """By epoch, with the moment in which it was first seen in force."""
    missed: int = 0
    """Wanted events that were published after a subscription was confirmed, and did not come to it."""
    unasked: int = 0
    """Events that came to a subscription, and either were not wanted or came twice."""
    dropped: int = 0
    """Packets that the operating system dropped, or did not take: then nothing can be said of `missed`."""
    memory_mib: float = 0.0
    """Of the planning process, at its highest."""

    @property
    def measured(self) -> Stretch:
        """The time just after the last subscription."""
        return self.stretches[-2]

    @property
    def settled(self) -> Stretch:
        """Some time after the last subscription."""
        return self.stretches[-1]

    def in_force(self, at: float) -> PlanInForce:
        """The plan at a moment."""
        return [plan for begun, plan in self.plans.values() if begun <= at][-1]


def topology() -> Topology:
    return build(TOPOLOGY)


async def first_minute(scene: Scene, rate: float, advance: Callable[[float], None]) -> Course:
    """Subscriptions arrive evenly for a minute; then nothing changes while waste is measured."""
    async with embedded(TOPOLOGY, replan=True) as controller, AsyncExitStack() as stack:
        minute = _Minute(scene, rate)
        await minute.enter(controller, stack)
        return await minute.run(advance)


class _Minute:
    def __init__(self, scene: Scene, rate: float) -> None:
        self._scene = scene
        self._rate = rate
        self._course = Course()
        self._clients: dict[HostId, Client] = {}
        self._publishers: list[Publisher] = []
        self._subscriptions: list[Subscription | None] = [None] * len(scene.filters)
        self._confirmed = np.full(len(scene.filters), np.iinfo(np.int64).max)
        """By subscription: how many events were published before it was confirmed."""
        self._wanted: Marks = np.stack([scene.events.matches(each) for each in scene.filters])
        self._sent = 0
        self._start = 0.0

    async def enter(self, controller: RunningController, stack: AsyncExitStack) -> None:
        """Connect everybody; publishers advertise everything."""
        scene = self._scene
        for host in dict.fromkeys((*scene.publishers, *scene.homes)):
            self._clients[host] = await stack.enter_async_context(controller.connect(host))
        await self._clients[scene.publishers[0]].create_schema(scene.schema)
        for host in scene.publishers:
            self._publishers.append(await self._clients[host].advertise(scene.schema.name))
        headers = {"Authorization": f"Bearer {controller.token}"}
        self._api = await stack.enter_async_context(
            httpx.AsyncClient(base_url=controller.url, headers=headers, timeout=30.0)
        )

    async def run(self, advance: Callable[[float], None]) -> Course:
        self._start = time.monotonic()
        at_work = [asyncio.create_task(self._arrive()), asyncio.create_task(self._watch_plans())]
        try:
            ends = np.arange(STRETCH_SECONDS, ARRIVAL_SECONDS + 0.1, STRETCH_SECONDS).tolist()
            for end in ends:
                await self._stretch(end)
                advance(STRETCH_SECONDS)
            await at_work[0]  # all are there
            self._skip_to(self._scene.arriving)
            await self._stretch(max(self._now(), ARRIVAL_SECONDS) + MEASURED_SECONDS)
            advance(MEASURED_SECONDS)
            await asyncio.sleep(SETTLING_SECONDS)
            await self._stretch(self._now() + STRETCH_SECONDS)
            advance(SETTLING_SECONDS + STRETCH_SECONDS)
            self._course.memory_mib = planning_memory_mib()
        finally:
            for task in at_work:
                task.cancel()
            await asyncio.gather(*at_work, return_exceptions=True)
        await self._compare()
        self._course.dropped += sum(client.info["overrun"] for client in self._clients.values())
        self._course.dropped += sum(each.info.unsent for each in self._publishers)
        return self._course

    def _skip_to(self, number: int) -> None:
        """Go on with the event of a number, without those before."""
        self._wanted[:, self._sent : number] = False
        self._sent = number

    def _now(self) -> float:
        return time.monotonic() - self._start

    async def _arrive(self) -> None:
        """Subscribe, one after the other."""
        count = len(self._scene.filters)
        for number, (host, wanted) in enumerate(zip(self._scene.homes, self._scene.filters, strict=True)):
            await asyncio.sleep(ARRIVAL_SECONDS * number / count - self._now())
            room = len(self._scene.events)
            made = await self._clients[host].subscribe(self._scene.schema.name, wanted, queue=room)
            self._subscriptions[number], self._confirmed[number] = made, self._sent

    async def _watch_plans(self) -> None:
        etag = ""
        while True:
            answer = await self._api.get(f"/v1/schemas/{self._scene.schema.name}/plan", headers={"If-None-Match": etag})
            if answer.status_code == httpx.codes.OK:
                body, etag = answer.json(), answer.headers["ETag"]
                if body["epoch"] not in self._course.plans:
                    read = IndexPlan.loads(json.dumps(body["plan"]))
                    self._course.plans[read.epoch] = self._now(), PlanInForce(read.epoch, read.index, read.members)
            await asyncio.sleep(PLAN_LOOK_SECONDS)

    async def _stretch(self, end: float) -> None:
        """Publish until a moment, wait until everything has arrived, and count what came to the hosts."""
        begin, first, before = self._now(), self._sent, await self._counters()
        while self._now() < end:
            due = first + (self._now() - begin) * self._rate
            while self._sent < due:
                event = self._scene.events.event(self._sent)
                self._publishers[self._sent % PUBLISHERS].publish(event)
                self._sent += 1
            await asyncio.sleep(1 / self._rate)
        stopped = self._now()
        after = await self._settled()
        came = _came(after) - _came(before)
        self._course.stretches.append(
            Stretch(begin, stopped, first, self._sent, Waste(came, self._wanted_at_hosts(first, self._sent)))
        )

    async def _settled(self) -> dict[str, Any]:
        """The counters of the hosts, when nothing is under way."""
        end = self._now() + MAX_SETTLING_SECONDS
        while True:
            counted = await self._counters()
            entered = sum(each["published"] + each["unadvertised"] for each in counted.values())
            left = sum(each["delivered"] for each in counted.values())
            waiting = sum(each.info.frames for each in self._publishers) - entered
            waiting += left - sum(client.info["packets"] for client in self._clients.values())
            if not waiting:
                return counted
            if self._now() > end:
                self._course.dropped = waiting
                return counted
            await asyncio.sleep(0.05)

    async def _counters(self) -> dict[str, Any]:
        answer = await self._api.get("/v1/statistics")
        hosts: dict[str, Any] = answer.raise_for_status().json()["hosts"]
        return hosts

    def _wanted_at_hosts(self, first: int, behind: int) -> int:
        """Pairs of an event and a host at which a subscription that was confirmed wants it."""
        there = self._wanted[:, first:behind] & (self._confirmed[:, None] <= np.arange(first, behind))
        homes = np.array(self._scene.homes)
        return sum(int(there[homes == home].any(axis=0).sum()) for home in set(self._scene.homes))

    async def _compare(self) -> None:
        """What each subscription got with what it must have got, and may."""
        keys = [event.value_keys for event in self._scene.events[: self._sent]]
        for number, subscription in enumerate(self._subscriptions):
            if subscription is None:
                continue
            got = Counter([(await subscription.receive()).event.value_keys for _ in range(subscription.waiting)])
            must, may = (
                Counter(keys[at] for at in since + np.flatnonzero(self._wanted[number, since : self._sent]))
                for since in (int(self._confirmed[number]), 0)
            )
            self._course.missed += (must - got).total()
            self._course.unasked += (got - may).total()


def _came(hosts: dict[str, Any]) -> int:
    """Packets that came to hosts: one socket is attached to each."""
    return sum(each["delivered"] + each["unclaimed"] + each["dropped"] for each in hosts.values())


def planning_memory_mib() -> float:
    """The peak memory of the planning process below this one; 0 where there is none."""
    parents: dict[int, int] = {}
    for found in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(found.parent.name)] = int(found.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            continue
    for pid in parents:
        if os.getpid() in _ancestors(pid, parents):
            try:
                if PLANNING_MODULE in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    rows = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
                    return next(int(row.split()[1]) / 1024 for row in rows if row.startswith("VmHWM:"))
            except OSError:
                continue
    return 0.0


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid

"""The whole system at work: a controller, switches and clients, real quotes, and a better plan halfway.

First half: quotes under the plan that every schema begins with. Then publishing pauses, the techniques of `tuning` are
tried on what has been seen, the best plan is adopted, and the second half runs under it. Every delivery of both halves
is compared with what was wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import numpy as np

from pleroma.client import Client, Publisher
from pleroma.content.batch import EventBatch
from pleroma.experiments.demonstration.replay import Counts, Subscribers, difference, expected, send
from pleroma.experiments.demonstration.stage import Stage, embedded
from pleroma.experiments.simulation import MEMBERS, simulate
from pleroma.index import Index
from pleroma.routing import Topology, build
from pleroma.selection.advice import advise
from pleroma.workloads import StockModel, Workload, generate_stock

ALIKE = StockModel(ticker=1.0, ranges=1.0, width=0.3, seed=1)
"""Each subscriber asks for quotes like one that was traded: its ticker, and every number within some 15 percent."""
TOPOLOGY = "testbed"
BITS = 40
SELECTIONS = ("sms", "cs", "ges")
TRIED = 4
"""Plans that are tried on the network before one is chosen."""
SAMPLE = 3_000


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to see at a moment."""

    phase: str
    seconds: float
    published: int
    counts: Counts
    rules: int
    plan: str
    url: str


@dataclass(frozen=True, slots=True)
class Half:
    """One half, when nothing is under way any more."""

    plan: str
    published: int
    counts: Counts
    wanted: int
    missed: int
    too_many: int
    rules: int
    fullest: int

    def to_json(self) -> dict[str, Any]:
        counts = self.counts
        late = dict(zip(("p50_us", "p99_us"), counts.late_us, strict=True))
        names = ("delivered", "wasted", "duplicates", "dropped", "overrun", "waste")
        mine = ("plan", "published", "wanted", "missed", "too_many", "rules", "fullest")
        return {n: getattr(self, n) for n in mine} | {n: getattr(counts, n) for n in names} | late


class Demonstration:
    """`show` is called with what there is to see, several times a second."""

    def __init__(
        self,
        subscriptions: int,
        rate: float,
        seconds: float,
        show: Callable[[Look], None],
        stage: Callable[[str, int], AbstractAsyncContextManager[Stage]] = embedded,
    ) -> None:
        self.data = generate_stock(replace(ALIKE, subscriptions=subscriptions))
        self.rate = rate
        self.seconds = seconds
        self.topology = build(TOPOLOGY)
        self._show = show
        self._stage = stage
        self._began = time.monotonic()
        self._phase = "starting"
        self._published = 0
        self._counts = Counts()
        self._rules = 0
        self._plan = ""
        self._url = ""

    async def run(self) -> list[Half]:
        hosts = [host.name for host in self.topology.hosts]
        name = self.data.schema.name
        looking = asyncio.create_task(self._look())
        try:
            async with (
                self._stage(TOPOLOGY, MEMBERS) as stage,
                stage.entered(hosts[0]) as (api, client),
            ):
                self._url = stage.url
                await client.create_schema(self.data.schema)
                self._phase = f"{len(self.data.subscriptions)} subscriptions"
                # where a host is a real one, it has one client: the publisher has the first to itself
                taken = hosts[1:] if stage.namespaces else hosts
                async with (
                    stage.crowd(name, self.data.subscriptions, taken, self._counted) as members,
                    await client.advertise(name) as publisher,
                ):
                    return await self._halves(api, client, publisher, members)
        finally:
            looking.cancel()

    async def _halves(
        self, api: httpx.AsyncClient, client: Client, publisher: Publisher, members: Subscribers
    ) -> list[Half]:
        quotes = self.data.events[np.random.default_rng(0).permutation(len(self.data.events))]
        first, rest = quotes[: len(quotes) // 2], quotes[len(quotes) // 2 :]
        each = self.seconds / 2
        halves = [await self._half(api, publisher, members, first, each, "the plan it began with")]
        self._phase = "paused: tuning on what was seen"
        index, chosen = await asyncio.to_thread(best_plan, self.data, first[: halves[0].published], self.topology)
        self._phase = "paused: adopting the plan"
        name = self.data.schema.name
        answer = await api.put(f"/v1/schemas/{name}/plan", json={"index": index.to_json()})
        answer.raise_for_status()
        while publisher.channel.epoch != answer.json()["epoch"]:
            await asyncio.sleep(0.05)
        await client.connected()
        halves.append(await self._half(api, publisher, members, rest, each, chosen))
        return halves

    async def _half(
        self,
        api: httpx.AsyncClient,
        publisher: Publisher,
        members: Subscribers,
        events: EventBatch,
        seconds: float,
        plan: str,
    ) -> Half:
        before, already = members.counts, self._published
        self._phase, self._plan = "publishing", plan
        switches = (await api.get("/v1/switches", params={"limit": 1000})).json()["items"]
        self._rules = sum(each["rules"] for each in switches)

        def moved(sent: int) -> None:
            self._published = already + sent

        sent = await send(publisher, events, self.rate, moved, until=time.monotonic() + seconds)
        late = members.counts.late_us
        self._phase = "waiting for the last events"
        counts = replace((await members.settled()).since(before), late_us=late)
        wanted = expected(self.data.subscriptions, events[:sent])
        missed, too_many = difference(wanted, counts.by_subscription)
        fullest = max(each["rules"] for each in switches)
        return Half(plan, sent, counts, sum(wanted), missed, too_many, self._rules, fullest)

    def _counted(self, counts: Counts) -> None:
        self._counts = counts

    async def _look(self) -> None:
        while True:
            passed = time.monotonic() - self._began
            look = Look(self._phase, passed, self._published, self._counts, self._rules, self._plan, self._url)
            self._show(look)
            await asyncio.sleep(0.2)


def best_plan(data: Workload, seen: EventBatch, topology: Topology) -> tuple[Index, str]:
    """The plan with the least waste at the hosts of a network, of the best that tuning finds."""
    sample = seen[:SAMPLE]
    found = advise(sample, data.subscriptions, BITS, selections=SELECTIONS, splits=("adaptive", "selective"))
    tried = replace(data, events=sample)
    results = [(simulate(topology, tried, each.index).waste.rate, each) for each in found[:TRIED]]
    _, best = min(results, key=lambda each: each[0])
    return best.index, best.technique

"""The whole system at work: a controller, switches and clients, real quotes, and a better plan halfway.

In the first half, quotes follow the plan that every schema begins with. Then publishing pauses, the techniques of
`selection` are tried on the quotes of the first half, the best plan is adopted, and the second half runs under it.
Every delivery of both halves is compared with what was wanted.
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
from pleroma.experiments.demonstration.replay import DeliveryCounts, Subscribers, difference, expected, send
from pleroma.experiments.demonstration.running_controller import RunningController, embedded
from pleroma.index import Index
from pleroma.routing import Topology, build
from pleroma.selection.advice import AdviceQuestion, advise
from pleroma.switches.simulated.simulation import SIMULATION_MEMBERS, simulate
from pleroma.workloads import StockModel, Workload, generate_stock

QUOTE_SUBSCRIBERS = StockModel(ticker=1.0, ranges=1.0, width=0.3, seed=1)
"""Each subscriber asks for quotes like one that was traded: its ticker, and every number within some 15 percent."""
DEMO_TOPOLOGY = "testbed"
DEMO_BITS = 40
DEMO_SELECTIONS = ("sms", "cs", "ges")
PLANS_TRIED = 4
"""The best plans by advice are tried on the simulated network before one of them is chosen."""
TUNING_EVENTS = 3_000
"""How many of the published quotes the techniques are tried on."""


@dataclass(frozen=True, slots=True)
class DemoView:
    """The state of a demonstration at a moment, as it is shown."""

    phase: str
    seconds: float
    published: int
    counts: DeliveryCounts
    rules: int
    plan: str
    url: str


@dataclass(frozen=True, slots=True)
class Half:
    """The counts of one half, taken when no event is on its way any more."""

    plan: str
    published: int
    counts: DeliveryCounts
    wanted: int
    missed: int
    too_many: int
    rules: int
    fullest: int

    def to_json(self) -> dict[str, Any]:
        counts = self.counts
        late = dict(zip(("p50_us", "p99_us"), counts.late_us, strict=True))
        names = ("delivered", "wasted", "duplicates", "dropped", "overrun", "waste_at_hosts")
        mine = ("plan", "published", "wanted", "missed", "too_many", "rules", "fullest")
        return {n: getattr(self, n) for n in mine} | {n: getattr(counts, n) for n in names} | late


class Demonstration:
    """A run of both halves; `show` is called several times a second with what there is to see."""

    def __init__(
        self,
        subscriptions: int,
        rate: float,
        seconds: float,
        show: Callable[[DemoView], None],
        start: Callable[[str, int], AbstractAsyncContextManager[RunningController]] = embedded,
    ) -> None:
        self.data = generate_stock(replace(QUOTE_SUBSCRIBERS, subscriptions=subscriptions))
        self.rate = rate
        self.seconds = seconds
        self.topology = build(DEMO_TOPOLOGY)
        self._show = show
        self._start = start
        self._began = time.monotonic()
        self._phase = "starting"
        self._published = 0
        self._counts = DeliveryCounts()
        self._rules = 0
        self._plan = ""
        self._url = ""

    async def run(self) -> list[Half]:
        hosts = [host.name for host in self.topology.hosts]
        name = self.data.schema.name
        looking = asyncio.create_task(self._look())
        try:
            async with (
                self._start(DEMO_TOPOLOGY, SIMULATION_MEMBERS) as controller,
                controller.entered(hosts[0]) as (api, client),
            ):
                self._url = controller.url
                await client.create_schema(self.data.schema)
                self._phase = f"{len(self.data.subscriptions)} subscriptions"
                # where a host is a real one, it has one client: the publisher has the first to itself
                taken = hosts[1:] if controller.namespaces else hosts
                async with (
                    controller.crowd(name, self.data.subscriptions, taken, self._counted) as members,
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
        counts = replace((await members.when_quiet()).since(before), late_us=late)
        wanted = expected(self.data.subscriptions, events[:sent])
        missed, too_many = difference(wanted, counts.by_subscription)
        fullest = max(each["rules"] for each in switches)
        return Half(plan, sent, counts, sum(wanted), missed, too_many, self._rules, fullest)

    def _counted(self, counts: DeliveryCounts) -> None:
        self._counts = counts

    async def _look(self) -> None:
        while True:
            passed = time.monotonic() - self._began
            look = DemoView(self._phase, passed, self._published, self._counts, self._rules, self._plan, self._url)
            self._show(look)
            await asyncio.sleep(0.2)


def best_plan(data: Workload, seen: EventBatch, topology: Topology) -> tuple[Index, str]:
    """The plan that wastes least at the hosts of a network, of the best that the techniques find, and its technique."""
    sample = seen[:TUNING_EVENTS]
    splits = ("adaptive", "selective")
    question = AdviceQuestion(
        data.subscriptions,
        DEMO_BITS,
        max_members=SIMULATION_MEMBERS,
        compare=True,
        selections=DEMO_SELECTIONS,
        splits=splits,
    )
    found = advise(sample, question)
    tried = replace(data, events=sample)
    results = [(simulate(topology, tried, each.index).waste.rate, each) for each in found[:PLANS_TRIED]]
    _, best = min(results, key=lambda each: each[0])
    return best.index, best.technique

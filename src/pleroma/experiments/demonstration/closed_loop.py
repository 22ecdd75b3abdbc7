"""The whole loop at work: traffic shifts, waste rises, the pipeline notices and re-plans, waste falls.

Every quote that is published goes into a lake too, where a watcher on Spark looks at it window by window. The network
begins with a plan that was made for trading in IBM, MSFT and FB. Then trading moves to AAPL and GOOG: all subscriptions
stay, and the plan is wrong. Nobody tells the watcher. Publishing never pauses, and what every subscription got in the
whole run is compared with what it wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from itertools import cycle

import httpx
import numpy as np

from pleroma.client import Publisher
from pleroma.content.batch import EventBatch
from pleroma.errors import SetupError
from pleroma.experiments.demonstration.demonstration import ALIKE, BITS, TOPOLOGY
from pleroma.experiments.demonstration.loop_story import AFTERWARDS, BEFORE, CHANGING, SHIFTED, Diary, Look, Loop
from pleroma.experiments.demonstration.replay import Counts, Subscribers, difference, expected
from pleroma.experiments.demonstration.stage import Stage, embedded
from pleroma.experiments.demonstration.watch_process import Onlooker, Watch, Words, watcher
from pleroma.experiments.simulation import MEMBERS
from pleroma.index import Index
from pleroma.pipeline.lake.lake import Lake
from pleroma.routing import build
from pleroma.selection.advice import advise
from pleroma.workloads import Workload, generate_stock

FIRST = ("IBM", "MSFT", "FB")
"""What is traded before the shift; afterwards it is the others."""
SAMPLE = 2_500
"""Quotes that the first plan is made from. They are not published."""
SHIFT = 1 / 3
"""The part of the time after which the traffic shifts, at the earliest."""
AFTER = 1 / 4
"""The part of the time that is published under the new plan, at the least."""
PATIENCE = 180.0
"""Seconds that the watcher may take for what it should do, however slow the machine."""
LOOK = 0.2
STEP = 0.005


class ClosedLoop:
    """`show` is called with what there is to see, several times a second."""

    def __init__(
        self,
        subscriptions: int,
        rate: float,
        seconds: float,
        show: Callable[[Look], None],
        stage: Callable[[str, int, bool], AbstractAsyncContextManager[Stage]] = embedded,
        watch: Watch = watcher,
    ) -> None:
        self.data = generate_stock(replace(ALIKE, subscriptions=subscriptions))
        self.rate = rate
        self.seconds = seconds
        self._show = show
        self._stage = stage
        self._watch = watch
        self._began = time.monotonic()
        self._phase = "starting"
        self._counts = Counts()
        self._epoch = 0
        self._said: list[str] = []
        self._url = ""
        self._diary = Diary()
        self._is_shifted = False
        self._is_over = False
        random = np.random.default_rng(0)
        early = np.isin(np.array(self.data.events.columns[0].tolist(), object), FIRST)
        learned, *self._rows = (
            *np.split(random.permutation(np.flatnonzero(early)), [SAMPLE]),
            random.permutation(np.flatnonzero(~early)),
        )
        self._learned: EventBatch = self.data.events[learned]
        self._sent: list[int] = []

    async def run(self) -> Loop:
        hosts = [host.name for host in build(TOPOLOGY).hosts]
        name = self.data.schema.name
        looking = asyncio.create_task(self._look())
        try:
            async with (
                self._stage(TOPOLOGY, MEMBERS, True) as stage,
                stage.entered(hosts[0]) as (api, client),
                AsyncExitStack() as stack,
            ):
                self._url = stage.url
                await client.create_schema(self.data.schema)
                self._phase = "starting Spark, making the first plan"
                lake = Lake.at(stage.lake or "")
                await self._until(lambda: name in lake.schemas())
                onlooker = await stack.enter_async_context(await self._watched(lake, stage, api))
                onlooker.on_decision = self._decided
                index = await asyncio.to_thread(first_plan, self.data, self._learned)
                answer = await api.put(f"/v1/schemas/{name}/plan", json={"index": index.to_json()})
                answer.raise_for_status()
                self._phase = f"{len(self.data.subscriptions)} subscriptions"
                # what a publisher sends is seen by all at its host, wanted or not
                crowd = stage.crowd(name, self.data.subscriptions, hosts[1:], self._counted)
                members = await stack.enter_async_context(crowd)
                await self._until(lambda: len(lake.subscriptions(name).rows) == len(self.data.subscriptions))
                async with await client.advertise(name) as publisher:
                    await self._until(lambda: publisher.channel.epoch == answer.json()["epoch"])
                    return await self._loop(api, publisher, members, onlooker)
        finally:
            looking.cancel()

    async def _watched(self, lake: Lake, stage: Stage, api: httpx.AsyncClient) -> AbstractAsyncContextManager[Onlooker]:
        """With a token that may only hand over plans."""
        answer = await api.post("/v1/principals", json={"name": "watcher", "role": "tuner"})
        answer.raise_for_status()
        return self._watch(lake.url, self.data.schema.name, stage.url, answer.json()["token"])

    async def _loop(
        self, api: httpx.AsyncClient, publisher: Publisher, members: Subscribers, onlooker: Onlooker
    ) -> Loop:
        self._epoch = publisher.channel.epoch
        self._phase = f"publishing {', '.join(FIRST)}"
        self._mark(BEFORE)
        start = time.monotonic()
        publishing = asyncio.create_task(self._publish(publisher))
        try:
            await asyncio.sleep(self.seconds * SHIFT)
            if not onlooker.is_awake:
                self._phase += ", until the watcher has seen a window"
            await self._until(lambda: onlooker.is_awake, onlooker)
            self._is_shifted = True
            self._phase = "trading has moved to other stocks"
            self._mark(SHIFTED)
            planned, settled = await self._follow(api, publisher, onlooker, start + self.seconds)
        finally:
            self._is_over = True
            await publishing
        self._phase = "waiting for the last events"
        counts = await members.settled()
        wanted = expected(self.data.subscriptions, self.data.events[self._sent])
        missed, too_many = difference(wanted, counts.by_subscription)
        return Loop(
            self._diary.stretches(len(self._sent), counts),
            planned,
            settled,
            tuple(onlooker.decisions),
            len(onlooker.windows),
            self._diary.timed(1.0),
            len(self._sent),
            sum(wanted),
            missed,
            too_many,
        )

    async def _follow(
        self, api: httpx.AsyncClient, publisher: Publisher, onlooker: Onlooker, end: float
    ) -> tuple[float | None, float | None]:
        """From the shift until `end`, or until a new plan was in force for a while: when it came, and was settled."""
        shifted = latest = time.monotonic()
        planned = settled = None
        path = f"/v1/schemas/{self.data.schema.name}/plan"
        while True:
            await asyncio.sleep(LOOK)
            onlooker.check()
            phase, now = (await api.get(path)).json()["phase"], time.monotonic()
            stretch = self._diary.starts[-1]
            if phase != "settled" and stretch.name != CHANGING:
                self._phase = "a new plan is on its way to the switches"
                self._mark(CHANGING)
            if publisher.channel.epoch > self._epoch:
                self._epoch = publisher.channel.epoch
                planned = planned or round(now - shifted, 2)
            if phase == "settled" and self._epoch > stretch.epoch:
                latest = now
                settled = settled or round(now - shifted, 2)
                self._phase = "publishing by the new plan"
                self._mark(AFTERWARDS)
            enough = PATIENCE if settled is None else self.seconds * AFTER
            if (phase == "settled" and now >= max(end, latest + enough)) or now > shifted + 2 * PATIENCE:
                return planned, settled

    async def _publish(self, publisher: Publisher) -> None:
        """At a steady rate until it is over; from the shift on, the others. Who has seen all begins anew."""
        streams = [cycle(rows.tolist()) for rows in self._rows]
        start = time.monotonic()
        while not self._is_over:
            row = next(streams[self._is_shifted])
            publisher.publish(self.data.events.event(row))
            self._sent.append(row)
            ahead = start + len(self._sent) / self.rate - time.monotonic()
            if ahead > STEP:
                await asyncio.sleep(ahead)
            elif len(self._sent) % 64 == 0:
                await asyncio.sleep(0)

    async def _until(self, done: Callable[[], bool], onlooker: Onlooker | None = None) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            if onlooker is not None:
                onlooker.check()
            if time.monotonic() > end:
                what = "the controller does not answer" if onlooker is None else "the watcher has seen no window"
                raise SetupError(f"{what} after {PATIENCE:.0f} s: is the machine too busy?", field="demo")
            await asyncio.sleep(LOOK)

    def _mark(self, name: str) -> None:
        self._diary.begin(name, self._epoch, len(self._sent))

    def _counted(self, counts: Counts) -> None:
        self._counts = counts
        if self._sent and not self._is_over:
            self._diary.note(counts)

    def _decided(self, decision: Words) -> None:
        before, after = decision["before"], decision["after"]
        found = ""
        if before is not None and after is not None:
            found = f"; on held-out events {before['rate']:.0%} would become {after['rate']:.0%}"
        self._said.append(f"{decision['detail']}{found}: {decision['outcome'].replace('_', ' ')}")

    async def _look(self) -> None:
        while True:
            passed = time.monotonic() - self._began
            waste, marks = self._diary.curve()
            look = Look(
                self._phase,
                passed,
                len(self._sent),
                self._counts,
                self._epoch,
                waste,
                marks,
                tuple(self._said),
                self._url,
            )
            self._show(look)
            await asyncio.sleep(LOOK)


def first_plan(data: Workload, seen: EventBatch) -> Index:
    """A tree grown for these events and all subscriptions."""
    return advise(seen, data.subscriptions, BITS, max_members=MEMBERS, selections=(), splits=("regular",))[0].index

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
from pleroma.experiments.demonstration.demonstration import DEMO_BITS, DEMO_TOPOLOGY, QUOTE_SUBSCRIBERS
from pleroma.experiments.demonstration.loop_story import (
    AFTERWARDS,
    BEFORE,
    CHANGING,
    SHIFTED,
    Diary,
    LoopStory,
    LoopView,
)
from pleroma.experiments.demonstration.replay import (
    SHORTEST_SLEEP_SECONDS,
    DeliveryCounts,
    Subscribers,
    difference,
    expected,
)
from pleroma.experiments.demonstration.running_controller import RunningController, embedded
from pleroma.experiments.demonstration.watch_process import StartWatcher, WatcherOutput, WatchRecord, watcher_process
from pleroma.index import Index
from pleroma.pipeline.lake.lake import Lake
from pleroma.routing import build
from pleroma.selection.advice import AdviceQuestion, advise
from pleroma.switches.simulated.simulation import SIMULATION_MEMBERS
from pleroma.workloads import Workload, generate_stock

EARLY_TICKERS = ("IBM", "MSFT", "FB")
"""The stocks traded before the shift; afterwards the others are."""
FIRST_PLAN_QUOTES = 2_500
"""Quotes that the first plan is learned from. They are not published."""
SHIFT_SHARE = 1 / 3
"""The share of the run after which the traffic shifts, at the earliest."""
AFTER_SHARE = 1 / 4
"""The share of the run that is published under the new plan, at least."""
WATCHER_SECONDS = 180.0
"""How long the watcher may take to start, to see a window or to re-plan, however slow the machine."""
LOOK_SECONDS = 0.2
"""Between two looks at the controller, and between two calls of `show`."""


class ClosedLoop:
    """A run of the closed loop; `show` is called several times a second with what there is to see."""

    def __init__(
        self,
        subscriptions: int,
        rate: float,
        seconds: float,
        show: Callable[[LoopView], None],
        start: Callable[[str, int, bool], AbstractAsyncContextManager[RunningController]] = embedded,
        watch: StartWatcher = watcher_process,
    ) -> None:
        self.data = generate_stock(replace(QUOTE_SUBSCRIBERS, subscriptions=subscriptions))
        self.rate = rate
        self.seconds = seconds
        self._show = show
        self._start = start
        self._watch = watch
        self._began = time.monotonic()
        self._phase = "starting"
        self._counts = DeliveryCounts()
        self._epoch = 0
        self._said: list[str] = []
        self._url = ""
        self._diary = Diary()
        self._is_shifted = False
        self._is_over = False
        random = np.random.default_rng(0)
        early = np.isin(np.array(self.data.events.columns[0].tolist(), object), EARLY_TICKERS)
        learned, *self._rows = (
            *np.split(random.permutation(np.flatnonzero(early)), [FIRST_PLAN_QUOTES]),
            random.permutation(np.flatnonzero(~early)),
        )
        self._learned: EventBatch = self.data.events[learned]
        self._sent: list[int] = []

    async def run(self) -> LoopStory:
        hosts = [host.name for host in build(DEMO_TOPOLOGY).hosts]
        name = self.data.schema.name
        looking = asyncio.create_task(self._look())
        try:
            async with (
                self._start(DEMO_TOPOLOGY, SIMULATION_MEMBERS, True) as controller,
                controller.entered(hosts[0]) as (api, client),
                AsyncExitStack() as stack,
            ):
                self._url = controller.url
                await client.create_schema(self.data.schema)
                self._phase = "starting Spark, making the first plan"
                lake = Lake.at(controller.lake or "")
                await self._until(lambda: name in lake.schemas())
                watcher = await stack.enter_async_context(await self._watched(lake, controller, api))
                index = await asyncio.to_thread(first_plan, self.data, self._learned)
                answer = await api.put(f"/v1/schemas/{name}/plan", json={"index": index.to_json()})
                answer.raise_for_status()
                self._phase = f"{len(self.data.subscriptions)} subscriptions"
                # what a publisher sends is seen by all at its host, wanted or not
                crowd = controller.crowd(name, self.data.subscriptions, hosts[1:], self._counted)
                members = await stack.enter_async_context(crowd)
                await self._until(lambda: len(lake.subscriptions(name)) == len(self.data.subscriptions))
                async with await client.advertise(name) as publisher:
                    await self._until(lambda: publisher.channel.epoch == answer.json()["epoch"])
                    return await self._loop(api, publisher, members, watcher)
        finally:
            looking.cancel()

    async def _watched(
        self, lake: Lake, controller: RunningController, api: httpx.AsyncClient
    ) -> AbstractAsyncContextManager[WatcherOutput]:
        """A watcher of the lake, with a token that may only hand over plans."""
        answer = await api.post("/v1/principals", json={"name": "watcher", "role": "tuner"})
        answer.raise_for_status()
        return self._watch(lake.url, self.data.schema.name, controller.url, answer.json()["token"], self._decided)

    async def _loop(
        self, api: httpx.AsyncClient, publisher: Publisher, members: Subscribers, watcher: WatcherOutput
    ) -> LoopStory:
        self._epoch = publisher.channel.epoch
        self._phase = f"publishing {', '.join(EARLY_TICKERS)}"
        self._mark(BEFORE)
        start = time.monotonic()
        publishing = asyncio.create_task(self._publish(publisher))
        try:
            await asyncio.sleep(self.seconds * SHIFT_SHARE)
            if not watcher.is_awake:
                self._phase += ", until the watcher has seen a window"
            await self._until(lambda: watcher.is_awake, watcher)
            self._is_shifted = True
            self._phase = "trading has moved to other stocks"
            self._mark(SHIFTED)
            planned, settled = await self._follow(api, publisher, watcher, start + self.seconds)
        finally:
            self._is_over = True
            await publishing
        self._phase = "waiting for the last events"
        counts = await members.when_quiet()
        wanted = expected(self.data.subscriptions, self.data.events[self._sent])
        missed, too_many = difference(wanted, counts.by_subscription)
        return LoopStory(
            self._diary.stretches(len(self._sent), counts),
            planned,
            settled,
            tuple(watcher.decisions),
            len(watcher.windows),
            self._diary.timed(1.0),
            len(self._sent),
            sum(wanted),
            missed,
            too_many,
        )

    async def _follow(
        self, api: httpx.AsyncClient, publisher: Publisher, watcher: WatcherOutput, end: float
    ) -> tuple[float | None, float | None]:
        """Follow the plan from the shift until `end`, or until a new plan was in force for a while.

        Returns the seconds from the shift until events followed a new plan, and until no switch had the old one.
        """
        shifted = latest = time.monotonic()
        planned = settled = None
        path = f"/v1/schemas/{self.data.schema.name}/plan"
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            watcher.check()
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
            enough = WATCHER_SECONDS if settled is None else self.seconds * AFTER_SHARE
            if (phase == "settled" and now >= max(end, latest + enough)) or now > shifted + 2 * WATCHER_SECONDS:
                return planned, settled

    async def _publish(self, publisher: Publisher) -> None:
        """Publish quotes at a steady rate, early tickers before the shift and the others after it, over and over."""
        streams = [cycle(rows.tolist()) for rows in self._rows]
        start = time.monotonic()
        while not self._is_over:
            row = next(streams[self._is_shifted])
            publisher.publish(self.data.events.event(row))
            self._sent.append(row)
            ahead = start + len(self._sent) / self.rate - time.monotonic()
            if ahead > SHORTEST_SLEEP_SECONDS:
                await asyncio.sleep(ahead)
            elif len(self._sent) % 64 == 0:
                await asyncio.sleep(0)

    async def _until(self, done: Callable[[], bool], watcher: WatcherOutput | None = None) -> None:
        end = time.monotonic() + WATCHER_SECONDS
        while not done():
            if watcher is not None:
                watcher.check()
            if time.monotonic() > end:
                what = "the controller does not answer" if watcher is None else "the watcher has seen no window"
                raise SetupError(f"{what} after {WATCHER_SECONDS:.0f} s: is the machine too busy?", field="demo")
            await asyncio.sleep(LOOK_SECONDS)

    def _mark(self, name: str) -> None:
        self._diary.begin(name, self._epoch, len(self._sent))

    def _counted(self, counts: DeliveryCounts) -> None:
        self._counts = counts
        if self._sent and not self._is_over:
            self._diary.note(counts)

    def _decided(self, decision: WatchRecord) -> None:
        before, after = decision["before"], decision["after"]
        found = ""
        if before is not None and after is not None:
            found = f"; on held-out events {before['rate']:.0%} would become {after['rate']:.0%}"
        self._said.append(f"{decision['detail']}{found}: {decision['outcome'].replace('_', ' ')}")

    async def _look(self) -> None:
        while True:
            passed = time.monotonic() - self._began
            waste, marks = self._diary.curve()
            look = LoopView(
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
            await asyncio.sleep(LOOK_SECONDS)


def first_plan(data: Workload, seen: EventBatch) -> Index:
    """A tree learned from these events and all subscriptions."""
    question = AdviceQuestion(data.subscriptions, DEMO_BITS, max_members=SIMULATION_MEMBERS)
    return advise(seen, question)[0].index

"""Landing at full rate: how many sampled events a controller lands in a second, and what its event loop feels of it."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.control import Controller, CreateSchema
from pleroma.pipeline.lake.landed import BatchId, SampledEvents
from pleroma.routing import SwitchId, SwitchOp, Topology, build
from pleroma.service import CollectingSettings
from pleroma.service.collecting.collection import Collection
from pleroma.service.http.examples import EXAMPLE_SCHEMA

EVENTS = 1_000_000
BATCH_EVENTS = 500
"""As clients send them."""
_BEAT_SECONDS = 0.001


def measure(events: int = EVENTS) -> dict[str, Any]:
    """`landed_per_s`, and in milliseconds the longest time in which nothing else ran in the loop, with and without."""
    return uvloop.run(_measured(events))


async def _measured(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pleroma-bench-") as folder:
        network = _Network(build("testbed"))
        async with await Controller.open(Path(folder) / "log", network.known, network) as controller:
            events = _events()
            await controller.submit(CreateSchema(events.schema))
            settings = CollectingSettings(f"{folder}/lake", land_seconds=0.5)
            collection = await Collection.open(controller, settings, network)
            gc.collect()
            gc.freeze()  # as a service does when it has started
            idle = await _stall(asyncio.sleep(2.0))
            async with collection:
                await _stall(_landed(collection, events, settings.events_per_file))  # kernels are loaded
                begin = time.perf_counter()
                stall = await _stall(_landed(collection, events, count, first=settings.events_per_file))
                seconds = time.perf_counter() - begin
            gc.unfreeze()
            if collection.failure is not None or collection.waiting.event_counts.dropped:
                raise RuntimeError(f"not everything was landed: {collection.failure}")
    return {
        "landed_per_s": round(count / seconds),
        "landing_loop_stall_ms": round(1000 * stall, 1),
        "idle_loop_stall_ms": round(1000 * idle, 1),
    }


def _events(count: int = 10_000) -> EventBatch:
    """With numbers, texts, and categories that some lack."""
    draw = np.random.default_rng(1)
    columns = {
        "price": draw.random(count) * 1000,
        "volume": draw.integers(0, 1000, count),
        "ticker": [f"TICKER{number}" for number in draw.integers(0, 3000, count)],
        "market": [("nyse", "lse", None)[number] for number in draw.integers(0, 3, count)],
    }
    return EventBatch.from_columns(Schema.from_json(EXAMPLE_SCHEMA), columns)


async def _landed(collection: Collection, events: EventBatch, count: int, first: int = 0) -> None:
    """Hand over so many events as fast as they are landed, in batches of several senders, and wait for the last."""
    landed = collection.waiting.event_counts.landed
    for number in range(first, first + count, BATCH_EVENTS):
        rows = (np.arange(BATCH_EVENTS) + number) % len(events)
        now = np.full(BATCH_EVENTS, np.datetime64(time.time_ns() // 1000, "us"))
        sampled = SampledEvents(events[rows], now, 1, 1.0, BatchId(f"sender {number % 7}", number))
        while not collection.add_samples(sampled):
            collection.waiting.event_counts.dropped = 0  # no room: a client would try again, too
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
    while collection.waiting.event_counts.landed < landed + count:
        await asyncio.sleep(0.005)


async def _stall(work: Any) -> float:
    """The longest pause, in seconds, of a task that wants to run all the time beside some work."""
    task, longest, before = asyncio.ensure_future(work), 0.0, time.perf_counter()
    while not task.done():
        await asyncio.sleep(_BEAT_SECONDS)
        now = time.perf_counter()
        longest, before = max(longest, now - before - _BEAT_SECONDS), now
    await task
    return longest


@dataclass(slots=True)
class _Network:
    """Switches that take whatever they are told."""

    known: Topology

    def topology(self) -> Topology:
        return self.known

    def rooms(self) -> Mapping[SwitchId, int]:
        return {}

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """Nothing to do."""


if __name__ == "__main__":
    print(measure())

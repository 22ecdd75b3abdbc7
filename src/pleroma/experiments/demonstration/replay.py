"""A workload through a running system: real clients subscribe, a real client publishes, every delivery is counted.

What each subscription got is compared with what its filter wants of the events that were sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pleroma.client import Publisher
from pleroma.content import Filter, filter_json
from pleroma.content.batch import EventBatch
from pleroma.errors import ClientError

NO_DELIVERY_SECONDS = 1.5
"""After so long without a new delivery, no event is on its way any more."""
CROWD_START_SECONDS = 120.0
"""How long all subscribers may take to connect and subscribe."""
SHORTEST_SLEEP_SECONDS = 0.005
"""A publisher that is ahead of its rate by less than this does not sleep."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What the subscribers have counted. `late_us` has the median and 99th percentile delay since the last count."""

    delivered: int = 0
    """Events that matched, at each subscription."""
    wanted: int = 0
    """Packets that came to a host and somebody there wanted."""
    wasted: int = 0
    """Packets that came to a host and nobody there wanted."""
    duplicates: int = 0
    dropped: int = 0
    overrun: int = 0
    stray: int = 0
    """Events that no subscription's cells account for: sent by an earlier plan, or for others at the same host."""
    late_us: tuple[float | None, float | None] = (None, None)
    by_subscription: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DeliveryCounts:
        names = ("delivered", "wanted", "wasted", "duplicates", "dropped", "overrun", "stray")
        late = data["p50_us"], data["p99_us"]
        return cls(**{name: data[name] for name in names}, late_us=late, by_subscription=tuple(data["by_subscription"]))

    @property
    def waste_at_hosts(self) -> float:
        """The share of the packets at hosts that nobody there wanted."""
        return self.wasted / max(self.wanted + self.wasted, 1)

    def since(self, earlier: DeliveryCounts) -> DeliveryCounts:
        """The same, from an earlier moment on."""
        names = ("delivered", "wanted", "wasted", "duplicates", "dropped", "overrun", "stray")
        more = {name: getattr(self, name) - getattr(earlier, name) for name in names}
        before = earlier.by_subscription or (0,) * len(self.by_subscription)
        pairs = zip(self.by_subscription, before, strict=True)
        return DeliveryCounts(**more, late_us=self.late_us, by_subscription=tuple(now - then for now, then in pairs))


@dataclass
class Subscribers:
    """The process of the crowd of subscribers, and what it has counted so far."""

    process: asyncio.subprocess.Process
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)
    changed: float = 0.0

    async def read(self, on_change: Callable[[DeliveryCounts], None]) -> None:
        assert self.process.stdout is not None  # noqa: S101
        async for line in self.process.stdout:
            counts = DeliveryCounts.from_json(json.loads(line))
            if counts.delivered + counts.wasted != self.counts.delivered + self.counts.wasted:
                self.changed = time.monotonic()
            self.counts = counts
            on_change(counts)

    async def when_quiet(self) -> DeliveryCounts:
        """The counters, once no delivery has come for `NO_DELIVERY_SECONDS`."""
        self.changed = time.monotonic()
        while time.monotonic() - self.changed < NO_DELIVERY_SECONDS:
            await asyncio.sleep(0.1)
        return self.counts


@asynccontextmanager
async def subscribers(
    url: str,
    token: str,
    schema: str,
    filters: Sequence[Filter],
    hosts: Sequence[str],
    on_change: Callable[[DeliveryCounts], None] = lambda _: None,
    *,
    principal: str | None = None,
    namespaces: Mapping[str, str] | None = None,
) -> AsyncIterator[Subscribers]:
    """A process with a client at each host; the subscriptions are dealt out to the clients in turn."""
    dealt: dict[str, list[Any]] = {host: [] for host in hosts}
    for number, each in enumerate(filters):
        dealt[hosts[number % len(hosts)]].append((number, filter_json.to_json(each)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pleroma.experiments.demonstration.crowd",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
    try:
        asked: dict[str, Any] = {"url": url, "token": token, "schema": schema, "hosts": dealt}
        asked |= {"principal": principal, "namespaces": dict(namespaces or {})}
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        await process.stdin.drain()
        async with asyncio.timeout(CROWD_START_SECONDS):
            ready = await process.stdout.readline()
        if not ready:
            raise ClientError("the subscribers could not start; see above")
        crowd = Subscribers(process)
        reading = asyncio.create_task(crowd.read(on_change))
        yield crowd
        process.stdin.close()
        await asyncio.wait([reading], timeout=10.0)
    finally:
        if process.returncode is None:
            process.stdin.close()
            try:
                async with asyncio.timeout(10.0):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def send(
    publisher: Publisher,
    events: EventBatch,
    rate: float,
    on_sent: Callable[[int], None] = lambda _: None,
    until: float | None = None,
) -> int:
    """Publish events in order at a steady rate, to the end or `until` a moment; returns how many were sent."""
    start, sent = time.monotonic(), 0
    for event in events:
        publisher.publish(event)
        sent += 1
        due = start + sent / rate
        now = time.monotonic()
        if until is not None and now >= until:
            break
        if due - now > SHORTEST_SLEEP_SECONDS:
            on_sent(sent)
            await asyncio.sleep(due - now)
        elif sent % 64 == 0:
            await asyncio.sleep(0)
    on_sent(sent)
    return sent


def expected(filters: Sequence[Filter], events: EventBatch) -> tuple[int, ...]:
    """How many of the events each filter wants."""
    return tuple(int(np.count_nonzero(events.matches(each))) for each in filters)


def difference(wanted: Sequence[int], got: Sequence[int]) -> tuple[int, int]:
    """Events missed and events too many, over all subscriptions."""
    pairs = list(zip(wanted, got, strict=True))
    return sum(max(w - g, 0) for w, g in pairs), sum(max(g - w, 0) for w, g in pairs)

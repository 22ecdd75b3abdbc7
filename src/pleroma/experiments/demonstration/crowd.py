"""Many subscribers in a process of their own: real clients on real sockets, counted together.

The parent writes one JSON object with the controller's address, the schema and the filters by host; where hosts have
namespaces of their own, each client is made in that of its host. The crowd writes one JSON line when all have
subscribed, and then two lines a second with what was counted so far. It stops when its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pleroma.client import Client, Subscription, connect
from pleroma.content import filter_json
from pleroma.experiments.demonstration.running_controller import at_host

COUNT_SECONDS = 0.5
"""The time between two reports to the parent."""


async def main() -> None:
    loop = asyncio.get_running_loop()
    asked = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    async with AsyncExitStack() as stack:
        crowd = _Crowd()
        for host in asked["hosts"]:
            await crowd.connect(stack, asked, host)
        await asyncio.gather(*(crowd.join(asked, host, each) for host, each in asked["hosts"].items()))
        _say({"ready": len(crowd.members)})
        ended = loop.run_in_executor(None, sys.stdin.read)
        while not ended.done():
            await asyncio.wait([ended], timeout=COUNT_SECONDS)
            _say(crowd.counters())
        crowd.stop()


class _Crowd:
    def __init__(self) -> None:
        self.members: dict[int, Subscription] = {}
        self.clients: dict[str, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._late: list[float] = []

    async def connect(self, stack: AsyncExitStack, asked: Mapping[str, Any], host: str) -> None:
        """Connect a client in its host's namespace; one after the other, since a thread is in one namespace."""
        with at_host(asked["namespaces"].get(host)):
            client = connect(asked["url"], asked["token"], host, principal=asked["principal"], patience=30.0)
            self.clients[host] = await stack.enter_async_context(client)

    async def join(self, asked: Mapping[str, Any], host: str, filters: Sequence[Any]) -> None:
        client = self.clients[host]
        schema = await client.schema(asked["schema"])
        wanted = [filter_json.from_json(schema, data) for _, data in filters]
        made = await client.subscribe_many(asked["schema"], wanted)
        for (number, _), subscription in zip(filters, made, strict=True):
            self.members[number] = subscription
            self._tasks.append(asyncio.create_task(self._listen(subscription)))

    async def _listen(self, subscription: Subscription) -> None:
        while True:
            packet = await subscription.receive()
            self._late.append((time.time_ns() - packet.time) / 1000)

    def counters(self) -> dict[str, Any]:
        """Sums so far, deliveries by subscription, and how late events since the last call were, in microseconds."""
        totals = dict.fromkeys(("delivered", "wanted", "wasted", "duplicates", "dropped"), 0)
        for each in self.members.values():
            for name in totals:
                totals[name] += getattr(each.info, name)
        packets = sum(client.info["packets"] for client in self.clients.values())
        lost, stray = (sum(client.info[name] for client in self.clients.values()) for name in ("overrun", "stray"))
        late, self._late = sorted(self._late), []
        quantiles = {f"p{q}_us": late[len(late) * q // 100] if late else None for q in (50, 99)}
        by_subscription = [self.members[number].info.delivered for number in sorted(self.members)]
        return {
            **totals,
            "packets": packets,
            "overrun": lost,
            "stray": stray,
            **quantiles,
            "by_subscription": by_subscription,
        }

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


def _say(item: dict[str, Any]) -> None:
    print(json.dumps(item), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

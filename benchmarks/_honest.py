"""Honest programs in a process of their own: one publishes, two subscribe, and all kinds of requests are asked.

Its argument is JSON: url, port, token, principal, hosts. It says `ready`, and answers each of the lines `begin`, `end`
and `tell` on its standard input; `tell` is answered with what became of everything that was begun between `begin` and
`end`. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any

from _http_load import Connection
from pleroma.client import Subscription, connect
from pleroma.content import Event

SCHEMA = "honest"
EVENTS_PER_S = 100.0
REQUESTS_PER_S = 20.0
TIMELY_SECONDS = 1.0
"""A request that takes longer was not answered, an event that takes longer did not get through."""


@dataclass(slots=True)
class Counted:
    """What was begun, each with the moment of it."""

    published: dict[int, tuple[float, Event]] = field(default_factory=dict)
    """By sequence number."""
    arrived: list[set[int]] = field(default_factory=list)
    """Sequence numbers of the events that came in time, by subscription."""
    forged: int = 0
    """Events that were taken for one of ours, and are none."""
    requests: list[tuple[float, str, bool]] = field(default_factory=list)

    def between(self, begin: float, end: float) -> dict[str, Any]:
        events = [sequence for sequence, (then, _) in self.published.items() if begin <= then < end]
        asked = [(kind, answered) for then, kind, answered in self.requests if begin <= then < end]
        failed = [kind for kind, answered in asked if not answered]
        return {
            "wanted": len(events) * len(self.arrived),
            "arrived": sum(sequence in arrived for arrived in self.arrived for sequence in events),
            "forged": self.forged,
            "asked": len(asked),
            "answered": len(asked) - len(failed),
            "failed": {kind: failed.count(kind) for kind in sorted(set(failed))},
        }


class Requests:
    """Each kind of request, on a connection that stays open or on a new one."""

    def __init__(self, given: dict[str, Any], counted: Counted) -> None:
        self._given = given
        self._counted = counted
        self._idle: list[Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        body = {"schema": SCHEMA, "filter": "x0 < 100 and x1 > 900", "host": given["hosts"][1]}
        self._subscription = json.dumps(body).encode()
        self._kinds: dict[str, Callable[[], Awaitable[bool]]] = {
            "list": self._list,
            "health": self._health,
            "register": self._register,
            "attach": self._attach,
            "stream": self._stream,
        }

    async def run(self) -> None:
        begin = time.monotonic()
        for number, kind in zip(count(), cycle(self._kinds)):
            await asyncio.sleep(begin + number / REQUESTS_PER_S - time.monotonic())
            task = asyncio.create_task(self._timed(kind))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _timed(self, kind: str) -> None:
        begin, answered = time.monotonic(), False
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            async with asyncio.timeout(TIMELY_SECONDS):
                answered = await self._kinds[kind]()
        self._counted.requests.append((begin, kind, answered))

    async def _kept(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """On a connection that stays open; on a new one if that was closed."""
        if self._idle:
            connection = self._idle.pop()
            with suppress(OSError, asyncio.IncompleteReadError):
                found = await connection.ask(method, path, body)
                self._idle.append(connection)
                return found
        connection = await Connection.open(self._given["port"], self._given["token"])
        found = await connection.ask(method, path, body)
        self._idle.append(connection)
        return found

    async def _list(self) -> bool:
        return (await self._kept("GET", "/v1/subscriptions?limit=10"))[0] == 200

    async def _register(self) -> bool:
        status, body = await self._kept("POST", "/v1/subscriptions", self._subscription)
        return status == 201 and (await self._kept("DELETE", f"/v1/subscriptions/{json.loads(body)['id']}"))[0] == 204

    async def _health(self) -> bool:
        connection = await Connection.open(self._given["port"], None)
        try:
            return (await connection.ask("GET", "/health"))[0] == 200
        finally:
            connection.close()

    async def _attach(self) -> bool:
        return (await self._kept("POST", "/v1/hosts/any/attachments?tags=true"))[0] == 201

    async def _stream(self) -> bool:
        connection = await Connection.open(self._given["port"], self._given["token"])
        try:
            await connection.begin("GET", "/v1/stream?types=plan")
            return (await connection.answer())[0] == 200
        finally:
            connection.close()


async def publish(publisher: Any, counted: Counted) -> None:
    chance, begin = random.Random(3), time.monotonic()
    for number in count():
        await asyncio.sleep(begin + number / EVENTS_PER_S - time.monotonic())
        event = publisher.schema.event({name: chance.randrange(1024) for name in publisher.schema.names})
        counted.published[publisher.publish(event)] = time.monotonic(), event


async def receive(subscription: Subscription, publisher: Any, counted: Counted) -> None:
    arrived: set[int] = set()
    counted.arrived.append(arrived)
    while True:
        packet = await subscription.receive()
        if packet.publisher == publisher.number:
            then, event = counted.published.get(packet.sequence, (0.0, None))
            if event != packet.event:
                counted.forged += 1
            elif time.monotonic() <= then + TIMELY_SECONDS:
                arrived.add(packet.sequence)


async def main(given: dict[str, Any]) -> None:
    counted = Counted()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                connect(given["url"], given["token"], host, principal=given["principal"], patience=30.0)
            )
            for host in given["hosts"]
        ]
        publisher = await clients[0].advertise(SCHEMA)
        subscriptions = [await client.subscribe(SCHEMA, "true") for client in clients[1:]]
        work: list[Awaitable[None]] = [publish(publisher, counted), Requests(given, counted).run()]
        work += [receive(each, publisher, counted) for each in subscriptions]
        tasks = [asyncio.ensure_future(each) for each in work]
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        print("ready", flush=True)
        moments = {"begin": 0.0, "end": 0.0}
        while line := (await lines.readline()).decode().strip():
            if line in moments:
                moments[line] = time.monotonic()
            found = counted.between(moments["begin"], moments["end"]) if line == "tell" else {}
            found["broken"] = [str(task.exception()) for task in tasks if task.done()]
            print(json.dumps(found), flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

"""One attack on a running service, in a process of its own that gets a processor only when nobody else wants it.

Its arguments are the name of the attack and JSON: port, url, udp, tokens, seconds. It says `ready` when what it needs
is there, attacks when a line comes, and at the end says how often it tried something, and how often it was refused or
cut off. Its connections come from another address than those of the honest programs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import resource
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any

import httpx

from _http_load import Connection
from pleroma.client import connect
from pleroma.client.inband.conversation import Pipe
from pleroma.client.inband.datagram_pipe import DatagramPipe
from pleroma.client.inband.transport import InbandTransport
from pleroma.wire.datagram_socket import open_socket
from pleroma.wire.tunnel import TUNNEL_START

SOURCE = "127.0.0.66"
HOST = "h4"
SCHEMA = "honest"
ANSWER_SECONDS = 30.0
PREPARING_SECONDS = 60.0
BROKEN = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)


@dataclass(slots=True)
class Attack:
    port: int
    url: str
    udp: str
    tokens: dict[str, str]
    seconds: float
    tried: int = 0
    refused: int = 0
    end: float = field(default=0.0, init=False)

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    def say_ready(self) -> None:
        print("ready", flush=True)
        sys.stdin.readline()
        self.end = time.monotonic() + self.seconds

    async def ask(self, who: str | None, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """A request on a connection of its own, that is no part of the attack."""
        connection = await Connection.open(self.port, self.tokens[who] if who else None, SOURCE)
        try:
            return await connection.ask(method, path, b"" if body is None else json.dumps(body).encode())
        finally:
            connection.close()

    async def flood(self, asking: Iterator[tuple[str | None, str, str, object]], connections: int = 4) -> None:
        """Requests (token, method, path, body) one after the other on each connection, until the end."""
        await asyncio.gather(*(self._worker(asking) for _ in range(connections)))

    async def _worker(self, asking: Iterator[tuple[str | None, str, str, object]]) -> None:
        kept: dict[str | None, Connection] = {}
        for token, method, path, body in asking:
            if not self.goes_on:
                break
            self.tried += 1
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    if token not in kept:
                        kept[token] = await Connection.open(self.port, token, SOURCE)
                    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
                    status, _ = await kept[token].ask(method, path, text)
                self.refused += status >= 400
                if status in (401, 429):
                    await asyncio.sleep(0.001)
                if len(kept) > 64:
                    kept.pop(next(iter(kept))).close()
            except BROKEN:
                self.refused += 1
                if token in kept:
                    kept.pop(token).close()
        for connection in kept.values():
            connection.close()

    async def until_end(self) -> None:
        await asyncio.sleep(max(self.end - time.monotonic(), 0.0))


async def headers(a: Attack) -> None:
    """A request whose headers never end."""
    a.say_ready()
    line = b"X-Padding: " + b"x" * 8000 + b"\r\n"

    async def endless() -> None:
        while a.goes_on:
            a.tried += 1
            try:
                async with asyncio.timeout(a.end - time.monotonic()):
                    _, writer = await asyncio.open_connection("127.0.0.1", a.port, local_addr=(SOURCE, 0))
                    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
                    while True:
                        writer.write(line * 8)
                        await writer.drain()
            except OSError:
                a.refused += 1
            except TimeoutError:
                pass

    await asyncio.gather(*(endless() for _ in range(4)))


async def half_open(a: Attack, addresses: int = 1) -> None:
    """1,500 connections that begin a request and never end it."""
    a.say_ready()
    sources = cycle([SOURCE] if addresses == 1 else [f"127.0.1.{number + 1}" for number in range(addresses)])
    held: list[asyncio.StreamWriter] = []
    watched: list[asyncio.Task[None]] = []

    async def closed(reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while await reader.read(1000):
                pass
        a.refused += 1

    for _ in range(1500):
        if not a.goes_on:
            break
        a.tried += 1
        try:
            async with asyncio.timeout(1.0):
                reader, writer = await asyncio.open_connection("127.0.0.1", a.port, local_addr=(next(sources), 0))
            writer.write(b"GET /health HTTP/1.1\r\nHost: loc")
            held.append(writer)
            watched.append(asyncio.create_task(closed(reader)))
        except (OSError, TimeoutError):
            a.refused += 1
    await a.until_end()
    for task in watched:
        task.cancel()
    for writer in held:
        writer.close()


async def half_open_spread(a: Attack) -> None:
    """The same from 50 addresses."""
    await half_open(a, 50)


def many_boxes(seed: int, boxes: int = 1000) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    made = []
    for _ in range(boxes):
        lows = [chance.randrange(900) for _ in range(4)]
        made.append({f"x{d}": {"between": [low, low + 100]} for d, low in enumerate(lows)})
    return made


async def pages(a: Attack) -> None:
    """200 subscriptions of 1,000 boxes are listed, over and over."""
    bodies = [
        json.dumps({"schema": SCHEMA, "boxes": many_boxes(number), "host": HOST}).encode() for number in range(200)
    ]
    connection = await Connection.open(a.port, a.tokens["attacker"], SOURCE)
    with suppress(*BROKEN):
        async with asyncio.timeout(PREPARING_SECONDS):
            for body in bodies:
                await connection.post("/v1/subscriptions", body)
    a.say_ready()
    await a.flood(cycle([(a.tokens["attacker"], "GET", "/v1/subscriptions?limit=1000", None)]), 2)


async def boxes(a: Attack) -> None:
    """Subscriptions of 1,000 boxes are made as fast as they are taken."""
    bodies = [
        json.dumps({"schema": SCHEMA, "boxes": many_boxes(number), "host": HOST}).encode() for number in range(20)
    ]
    a.say_ready()
    await a.flood(((a.tokens["attacker"], "POST", "/v1/subscriptions", body) for body in cycle(bodies)), 4)


def costly_filters() -> list[str]:
    def unlike(d: int, many: int) -> str:
        return " and ".join(f"x{d} != {number * 3 + 1}" for number in range(many))

    points = " or ".join(f"(x0 = {number} and x1 = {number})" for number in range(60))
    alternatives = " and ".join(f"(x0 > {n} or x1 > {n} or x2 < {n})" for n in range(100, 112))
    many = " or ".join(
        f"(x{n % 4} > {n} and x{(n + 1) % 4} < {1000 - n} and x{(n + 2) % 4} != {n})" for n in range(900)
    )
    return [
        " and ".join(unlike(d, 9) for d in range(3)),
        " and ".join(unlike(d, 30) for d in range(4)),
        f"not ({points})",
        alternatives,
        f"not ({many})",
        unlike(0, 1000),
        "x0 in (" + ", ".join(str(2 * n) for n in range(500)) + ") and x1 in (" + ", ".join(map(str, range(500))) + ")",
    ]


async def filters(a: Attack, who: str = "attacker") -> None:
    """Short filters that are costly to bring into normal form, ten at a time."""
    a.say_ready()
    texts = cycle(costly_filters())
    asking = (
        (a.tokens[who], "POST", path, {"schema": SCHEMA, "filter": text, "host": HOST})
        for text, path in zip(texts, cycle(("/v1/subscriptions", "/v1/advertisements", "/v1/subscriptions")))
    )
    await a.flood(asking, 10)


async def filters_without_rights(a: Attack) -> None:
    """The same of somebody who may not read the schema."""
    await filters(a, "outsider")


async def wrong_tokens(a: Attack) -> None:
    """Requests with tokens that nobody has."""
    a.say_ready()
    asking = (
        (f"plr_{secrets.token_urlsafe(32)}", "GET", path, None)
        for path in cycle(("/v1/subscriptions", "/v1/statistics", "/docs", "/openapi.json"))
    )
    await a.flood(asking, 8)


async def leases(a: Attack) -> None:
    """Ever new leases, with names of a megabyte, of schemas that there are not, and of what is not registered."""
    a.say_ready()

    def asking() -> Iterator[tuple[str | None, str, str, object]]:
        wanted = {"schema": SCHEMA, "filter": "true", "host": "nowhere"}
        for number in count():
            long = f"{number}" + "x" * 1_000_000
            yield a.tokens["attacker"], "POST", "/v1/subscriptions", wanted | {"lease": long}
            yield a.tokens["attacker"], "POST", "/v1/subscriptions", wanted | {"lease": f"{number}"}
            yield a.tokens["attacker"], "PUT", f"/v1/leases/{number}", {"plans": {long: 1}}

    await a.flood(asking(), 4)


async def registrations(a: Attack) -> None:
    """Subscriptions are made and withdrawn as fast as they are taken."""
    chance = random.Random(4)
    connections = [await Connection.open(a.port, a.tokens["attacker"], SOURCE) for _ in range(8)]
    a.say_ready()

    async def come_and_go(connection: Connection) -> None:
        standing: list[str] = []
        while a.goes_on:
            low, other = chance.randrange(1000), chance.randrange(1000)
            text = f"x0 >= {low} and x0 < {low + 20} and x1 > {other}"
            body = json.dumps({"schema": SCHEMA, "filter": text, "host": HOST}).encode()
            status, answer = await connection.ask("POST", "/v1/subscriptions", body)
            a.tried += 1
            if status == 201:
                standing.append(json.loads(answer)["id"])
            else:
                a.refused += 1
                await asyncio.sleep(0.001)
            if len(standing) > 100:
                await connection.ask("DELETE", f"/v1/subscriptions/{standing.pop(0)}")

    await asyncio.gather(*map(come_and_go, connections), return_exceptions=True)


async def attachments(a: Attack) -> None:
    """One principal attaches as often as it can."""
    a.say_ready()
    await a.flood(cycle([(a.tokens["attacker"], "POST", "/v1/hosts/any/attachments?tags=true", None)]), 8)


async def streams(a: Attack) -> None:
    """One principal opens as many streams as it can, and reads none."""
    a.say_ready()
    held: list[Connection] = []
    while a.goes_on and len(held) < 1500:
        a.tried += 1
        try:
            async with asyncio.timeout(2.0):
                connection = await Connection.open(a.port, a.tokens["attacker"], SOURCE)
                await connection.begin("GET", "/v1/stream")
                status, _ = await connection.answer()
            a.refused += status >= 400
            held.append(connection)
        except BROKEN:
            a.refused += 1
    await a.until_end()
    for each in held:
        each.close()


def tree(depth: int, shift: float) -> dict[str, Any]:
    """A tree of 2 ** depth leaves: halves, a little askew, in turn by attribute."""
    nodes, cuts = bytearray(), list[float]()

    def grow(level: int, sides: list[tuple[float, float]]) -> None:
        if level == depth:
            nodes.append(255)
            return
        d = level % 4
        low, high = sides[d]
        cut = low + (high - low) * shift
        nodes.append(d)
        cuts.append(cut)
        for side in ((low, cut), (cut, high)):
            grow(level + 1, [*sides[:d], side, *sides[d + 1 :]])

    grow(0, [(0.0, 1.0)] * 4)
    packed = struct.pack(f"<{len(cuts)}d", *cuts)
    text = {"nodes": base64.b64encode(bytes(nodes)).decode(), "cuts": base64.b64encode(packed).decode()}
    return {"kind": "tree", "bits": 64, **text}


async def plans(a: Attack) -> None:
    """A tuner hands over plans as large as any, one after the other, and some that are too large."""
    bodies = [
        json.dumps({"index": tree(depth, 0.4 + number / 50), "method": method, "wait": False}).encode()
        for number in range(4)
        for depth, method in ((14, "lightweight"), (14, "versioning"), (14, "at_once"), (16, "lightweight"))
    ]
    a.say_ready()
    await a.flood(((a.tokens["tuner"], "PUT", f"/v1/schemas/{SCHEMA}/plan", body) for body in cycle(bodies)), 2)


async def plan_change(a: Attack) -> None:
    """The plan changes, again and again, with 10,000 rules on the switches."""
    chance = random.Random(5)
    connections = [await Connection.open(a.port, a.tokens["attacker"], SOURCE) for _ in range(4)]

    async def fill(connection: Connection) -> None:
        for _ in range(600):
            low, other = chance.randrange(1000), chance.randrange(1000)
            text = f"x0 >= {low} and x0 < {low + 20} and x1 >= {other} and x1 < {other + 20}"
            host = chance.choice(("h4", "h5", "h6", "h7", "h8"))
            await connection.post(
                "/v1/subscriptions", json.dumps({"schema": SCHEMA, "filter": text, "host": host}).encode()
            )

    with suppress(*BROKEN):
        async with asyncio.timeout(PREPARING_SECONDS):
            await asyncio.gather(*map(fill, connections))
    orders = ([0, 1, 2, 3] * 5, [1, 0, 3, 2] * 5)
    bodies = [
        json.dumps({"index": {"kind": "grid", "order": order, "boundaries": {}}, "members": 8}).encode()
        for order in orders
    ]
    a.say_ready()
    await a.flood(((a.tokens["tuner"], "PUT", f"/v1/schemas/{SCHEMA}/plan", body) for body in cycle(bodies)), 1)


async def samples(a: Attack) -> None:
    """Samples at rates that were never in force, of events that were never published."""
    a.say_ready()
    chance = random.Random(6)

    def asking() -> Iterator[tuple[str | None, str, str, object]]:
        for number in count():
            columns = {f"x{d}": [chance.randrange(1024) for _ in range(100)] for d in range(4)}
            rate = chance.choice((5e-324, 1e-300, chance.random(), 1.0))
            batch = {"sender": secrets.token_hex(8), "number": number}
            body = {"schema": SCHEMA, "epoch": 1, "rate": rate, "ages": [0.1] * 100, "columns": columns, "batch": batch}
            yield a.tokens["attacker"], "POST", "/v1/samples", body

    await a.flood(asking(), 4)


async def forged(a: Attack) -> None:
    """Events under the number of another publisher, with the sequence numbers that its next events will have."""
    async with connect(a.url, a.tokens["attacker"], HOST) as client:
        subscription = await client.subscribe(SCHEMA, "true")
        publisher = await client.advertise(SCHEMA)
        own = publisher.number
        await subscription.receive()
        a.say_ready()
        with suppress(TimeoutError):
            async with asyncio.timeout(a.seconds):
                while True:
                    seen = await subscription.receive()
                    if seen.publisher == own or subscription.waiting:
                        continue
                    channel, _, sender, seal = publisher._route
                    for ahead in range(1, 65):
                        a.tried += 1
                        number, sequence = seen.publisher, seen.sequence + ahead
                        for address, packet in channel.datagrams(seen.event, number, sequence, seen.time, seal):
                            sender.send(address, packet)


async def frames(a: Attack) -> None:
    """A flood of frames at one host's port: noise, cut and mutated events, control frames with guessed secrets."""
    _, text = await a.ask("attacker", "POST", f"/v1/hosts/{HOST}/attachments?tags=true")
    answer = json.loads(text)
    where = answer.get("udp_host") or "127.0.0.1", int(answer["port"])
    chance, made = random.Random(7), list[bytes]()
    for _ in range(2000):
        body = chance.randbytes(chance.randrange(0, 200))
        address = bytes.fromhex("ff0e") + chance.randbytes(14)
        start = b"\x01\x01" + bytes(6)
        made += [
            body,
            TUNNEL_START + body,
            TUNNEL_START + address + start + body,
            b"PLA\x01\x01" + chance.randbytes(16),
        ]
        made += [b"PLC\x01" + body]
    a.say_ready()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.bind((SOURCE, 0))
        while a.goes_on:
            for frame in made:
                with suppress(OSError):
                    sending.sendto(frame, where)
            a.tried += len(made)


async def hello(a: Attack) -> None:
    """What a client once said to a broker is said again from 3,000 ports."""
    host, _, port = a.udp.removeprefix("udp://").rpartition(":")
    said: list[bytes] = []

    class Recorder(DatagramPipe):
        def send(self, data: bytes) -> None:
            said.append(data)
            super().send(data)

    def pipes(on_datagram: Callable[[Pipe, bytes], None]) -> list[Pipe]:
        opened = open_socket(socket.AF_INET, lambda opened: opened.connect((host, int(port))))
        return [Recorder(opened, on_datagram)]

    transport = InbandTransport(pipes, "attacker", a.tokens["attacker"])
    async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
        (await client.get("/v1/subscriptions")).raise_for_status()
    sockets = []
    for _ in range(3000):
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.bind((SOURCE, 0))
        opened.setblocking(False)
        sockets.append(opened)
    a.say_ready()
    for sending in cycle(sockets):
        if not a.goes_on:
            break
        for datagram in said:
            a.tried += 1
            with suppress(OSError):
                sending.sendto(datagram, (host, int(port)))


ATTACKS: dict[str, Callable[[Attack], Coroutine[Any, Any, None]]] = {
    each.__name__: each
    for each in (
        headers,
        half_open,
        half_open_spread,
        pages,
        boxes,
        filters,
        filters_without_rights,
        wrong_tokens,
        leases,
        registrations,
        attachments,
        streams,
        plans,
        plan_change,
        samples,
        forged,
        frames,
        hello,
    )
}


def main(name: str, given: str) -> None:
    os.nice(19)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(**json.loads(given))
    asyncio.run(ATTACKS[name](attack))
    print(json.dumps({"tried": attack.tried, "refused": attack.refused}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A load generator: bare HTTP/1.1 on a few connections that stay open, so that it is not what is measured."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str | None) -> None:
        self._reader = reader
        self._writer = writer
        self._head = "" if token is None else f"Authorization: Bearer {token}\r\n"

    @classmethod
    async def open(cls, port: int, token: str | None, source: str = "127.0.0.1") -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)), token)

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the body of the answer."""
        await self.begin(method, path, body)
        status, size = await self.answer()
        return status, await self._reader.readexactly(size)

    async def begin(self, method: str, path: str, body: bytes = b"") -> None:
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{self._head}{kind}\r\n".encode() + body)
        await self._writer.drain()

    async def answer(self) -> tuple[int, int]:
        """The status of an answer, and how many bytes its body has; 0 for a stream."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return int(head.split(b" ", 2)[1]), size

    async def post(self, path: str, body: bytes) -> int:
        """The status of the answer."""
        return (await self.ask("POST", path, body))[0]

    def close(self) -> None:
        self._writer.close()


async def principals(port: int, token: str, count: int, subscriptions: int) -> list[str]:
    """The tokens of so many new principals, which may read everything."""
    admin = await Connection.open(port, token)
    tokens = []
    for number in range(count):
        asked = {"name": f"load{number}", "role": "both", "read": {"*": "true"}, "subscriptions": subscriptions}
        status, body = await admin.ask("POST", "/v1/principals", json.dumps(asked).encode())
        assert status == 201, body
        tokens.append(json.loads(body)["token"])
    admin.close()
    return tokens


async def flat_out(port: int, tokens: Sequence[str], path: str, bodies: Sequence[bytes], clients: int) -> float:
    """Requests a second, each client sending one after the other; all must be accepted. Clients share the tokens."""
    connections = [await Connection.open(port, tokens[number % len(tokens)]) for number in range(clients)]
    start = time.perf_counter()

    async def work(number: int) -> None:
        for body in bodies[number::clients]:
            status = await connections[number].post(path, body)
            assert status == 201, f"status {status}"

    await asyncio.gather(*map(work, range(clients)))
    seconds = time.perf_counter() - start
    for each in connections:
        each.close()
    return len(bodies) / seconds


async def batches(port: int, tokens: Sequence[str], path: str, bodies: Sequence[bytes], items: int) -> float:
    """Items a second, in batches of so many; a client for each token. All items must be accepted."""
    connections = [await Connection.open(port, token) for token in tokens]
    parts = [bodies[at : at + items] for at in range(0, len(bodies), items)]
    start = time.perf_counter()

    async def work(number: int) -> None:
        for part in parts[number :: len(tokens)]:
            status, answer = await connections[number].ask("POST", path, b'{"items":[' + b",".join(part) + b"]}")
            assert status == 200, f"status {status}"
            assert answer.count(b'"status":201') == len(part)

    await asyncio.gather(*map(work, range(len(tokens))))
    seconds = time.perf_counter() - start
    for each in connections:
        each.close()
    return len(bodies) / seconds


async def paced(
    port: int, tokens: Sequence[str], path: str, bodies: Sequence[bytes], clients: int, due: Sequence[float]
) -> list[float]:
    """How many seconds each request took, counted from when it was due; `due` are seconds from the start."""
    connections = [await Connection.open(port, tokens[number % len(tokens)]) for number in range(clients)]
    start = time.perf_counter()
    took: list[float] = []

    async def work(number: int) -> None:
        for body, moment in zip(bodies[number::clients], due[number::clients], strict=True):
            await asyncio.sleep(max(start + moment - time.perf_counter(), 0.0))
            assert await connections[number].post(path, body) == 201
            took.append(time.perf_counter() - start - moment)

    await asyncio.gather(*map(work, range(clients)))
    for each in connections:
        each.close()
    return sorted(took)

"""A load generator: bare HTTP/1.1 on a few connections that stay open, so that it is not what is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = (
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            + token
            + "\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        )

    @classmethod
    async def open(cls, port: int, token: str) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port), token)

    async def post(self, path: str, body: bytes) -> int:
        """The status of the answer."""
        self._writer.write(self._head.format(path=path, size=len(body)).encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        await self._reader.readexactly(size)
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        self._writer.close()


async def flat_out(port: int, token: str, path: str, bodies: Sequence[bytes], clients: int) -> float:
    """Requests a second, each client sending one after the other; all must be accepted."""
    connections = [await Connection.open(port, token) for _ in range(clients)]
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


async def paced(
    port: int, token: str, path: str, bodies: Sequence[bytes], clients: int, due: Sequence[float]
) -> list[float]:
    """How many seconds each request took, counted from when it was due; `due` are seconds from the start."""
    connections = [await Connection.open(port, token) for _ in range(clients)]
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

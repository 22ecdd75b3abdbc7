"""Very many streams of one principal: what they are told costs others neither time nor memory."""

import asyncio
import os
import re

import httpx

from pleroma.service.loop_watch import LONG_STALL_SECONDS
from support.service.process import ServiceProcess
from support.waiting import run

LONG = os.environ.get("PLEROMA_LONG") == "1"
STREAMS = 900 if LONG else 300
SCHEMA = {"name": "s", "attribute": [{"name": n, "kind": "integer", "min": 0, "max": 9999} for n in ("x", "y")]}


async def opened(process, token):
    """A stream, and the task that reads it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(f"GET /v1/stream HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    await reader.readuntil(b": alive\n\n")

    async def heard():
        await reader.readuntil(b"event: request")

    return writer, asyncio.create_task(heard())


def test_what_hundreds_of_streams_are_told_does_not_keep_the_loop(tmp_path):
    """With 900 of them, one subscription of a thousand boxes kept everybody waiting for 1.7 s."""
    boxes = [{"x": {"between": [9 * i, 9 * i + 5]}, "y": {"between": [i, 2 * i]}} for i in range(1000)]

    async def main(process):
        async with httpx.AsyncClient(base_url=process.url, headers=process.headers, timeout=60) as api:
            (await api.post("/v1/schemas", json={"schema": SCHEMA})).raise_for_status()
            new = {"name": "greedy", "role": "both", "read": {"*": "true"}}
            token = (await api.post("/v1/principals", json=new)).json()["token"]
            streams = [await opened(process, token) for _ in range(STREAMS)]
            body = {"schema": "s", "boxes": boxes, "host": "h1"}
            made = await api.post("/v1/subscriptions", json=body, headers={"Authorization": f"Bearer {token}"})
            assert made.status_code == 201
            await asyncio.gather(*(heard for _, heard in streams))
            text = (await api.get("/metrics")).text
            for writer, _ in streams:
                writer.close()
            return float(re.search(r'^pleroma_loop_busy_seconds{within="5s"} (\S+)$', text, re.MULTILINE)[1])

    with ServiceProcess(tmp_path / "pleroma") as process:
        busy = run(lambda: main(process), 60)
    print(f"with {STREAMS} streams, busy for {1000 * busy:.0f} ms")
    assert busy < LONG_STALL_SECONDS

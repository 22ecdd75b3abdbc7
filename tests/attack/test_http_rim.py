"""Strangers and greedy callers at the HTTP port: what they hold is bounded, and others are served meanwhile.

The servers run in the test's own event loop where only their answers matter, and as a process where memory does.
"""

import asyncio
import contextlib
import gc
import os
import resource
import socket
import time
import weakref
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import uvloop

from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, running
from pleroma.service.http.connections import guarded_http
from pleroma.service.http.connections.descriptors import free_descriptors, raise_descriptor_limit
from pleroma.service.http.connections.guarded_http import (
    ARRIVAL_SECONDS,
    HEAD_SECONDS,
    KEEP_ALIVE_SECONDS,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_WAITING_REQUESTS,
    UNREAD_SECONDS,
)
from support.service.process import ServiceProcess
from support.waiting import until

LONG = os.environ.get("PLEROMA_LONG") == "1"
HALF_REQUESTS = 5000 if LONG else 1500
FLOOD_BYTES = 2**30 if LONG else 2**26
HONEST_SECONDS = 5.0
"""What an honest request may take on a busy machine while somebody attacks; it took 8 s once, and failed at last."""


class Served:
    """A service in this loop, connections to it, and its table of connections."""

    def __init__(self, service):
        self.service = service
        self.port = int(service.url.rpartition(":")[2])
        self.table = service.service.connections
        self.token = f"Authorization: Bearer {service.token}\r\n".encode()
        self._writers = []

    async def connect(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def close(self):
        for writer in self._writers:
            writer.transport.abort()
        await until(lambda: self.connections == 0)

    async def sent(self, data):
        """A connection that has sent this, and that the server has read."""
        reader, writer = await self.connect()
        writer.write(data)
        await writer.drain()
        return reader, writer

    def pass_seconds(self, seconds):
        """Let the service find that so many seconds have passed."""
        for _ in range(seconds):
            self.table.sweep()

    def cut(self, reason):
        name = "pleroma_connections_cut_total"
        samples = [each for family in self.table.metrics() for each in family.samples]
        return sum(each.value for each in samples if each.name == name and each.labels["reason"] == reason)

    @property
    def connections(self):
        return len(self.table.anonymous) + len(self.table.known)


@asynccontextmanager
async def served(folder, **settings):
    async with running(folder, build("testbed"), Deployment(port=0, settings=ServiceSettings(**settings))) as service:
        made = Served(service)
        try:
            yield made
        finally:
            await made.close()


def run(main, seconds=30.0):
    """Run a coroutine function on the event loop that services run on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main(), seconds))


async def send_until_closed(writer, block, most_bytes=2**25):
    """Send a block again and again; fails if the other side takes so many bytes."""
    for _ in range(most_bytes // len(block)):
        writer.write(block)
        try:
            await writer.drain()
        except ConnectionError:
            return
        if writer.is_closing():
            return
    raise AssertionError("everything was taken")


async def answer(reader):
    """The status and the rest of all that comes until the connection is closed."""
    with contextlib.suppress(ConnectionResetError):
        said = await reader.read(2**20)
        return int(said.split(b" ")[1]) if said else None
    return None


def resident_mb(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize(
    "start",
    [
        b"GET /health HTTP/1.1\r\nX: ",
        b"GET /",
        b"GET /health HTTP/1.1\r\n",
        b"POST /v1/hosts HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST /v1/hosts HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"",
    ],
    ids=["value", "path", "headers", "chunk-extension", "trailers", "blank-lines"],
)
def test_a_head_without_end_is_cut(tmp_path, start):
    filling = {b"GET /health HTTP/1.1\r\n": b"a:b\r\n", b"": b"\r\n"}.get(
        start, b"a:b\r\n" if b"0\r\n" in start else b"a"
    )

    async def main():
        async with served(tmp_path) as service:
            _, writer = await service.sent(start)
            await send_until_closed(writer, filling * (4096 // len(filling)))
            assert service.cut("large") == 1
            await until(lambda: service.connections == 0)

    run(main)


def test_a_connection_that_is_gone_keeps_nothing_until_garbage_is_collected(tmp_path):
    async def main():
        async with served(tmp_path) as server:
            gc.collect()
            gc.disable()
            try:
                _, writer = await server.sent(b"GET /health HTTP/1.1\r\nX-Padding: " + b"x" * 8000)
                await until(lambda: server.connections == 1)
                (seat,) = server.table.anonymous
                known = weakref.ref(seat.connection)
                del seat
                writer.transport.abort()
                await until(lambda: server.connections == 0)
                await until(lambda: known() is None)
            finally:
                gc.enable()

    run(main)


def test_a_head_of_just_the_allowed_size_is_read_and_a_larger_one_is_told_so(tmp_path):
    async def main():
        async with served(tmp_path) as service:
            line = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: %s\r\n\r\n"
            reader, _ = await service.sent(line % (b"a" * (MAX_HEAD_BYTES - len(line))))
            assert await answer(reader) == 200
            reader, _ = await service.sent(line % (b"a" * (MAX_HEAD_BYTES + guarded_http._PIECE_BYTES)))
            assert await answer(reader) == 431
            headers = b"GET /health HTTP/1.1\r\nConnection: close\r\n%s\r\n"
            reader, _ = await service.sent(headers % (b"a: b\r\n" * (MAX_HEADERS - 1)))
            assert await answer(reader) == 200
            reader, _ = await service.sent(headers % (b"a: b\r\n" * MAX_HEADERS))
            assert await answer(reader) == 431

    run(main)


def test_what_is_not_http_is_answered_once_in_the_one_shape(tmp_path):
    async def main():
        async with served(tmp_path) as service:
            reader, _ = await service.sent(b"\x16\x03\x01 hello\r\n\r\n")
            said = await reader.read()
            assert said.startswith(b"HTTP/1.1 400 ")
            assert b'"code":"bad_request"' in said
            assert service.cut("malformed") == 1

    run(main)


def test_a_body_in_chunks_of_one_byte_is_cut_and_one_in_honest_chunks_is_read(tmp_path):
    async def main():
        async with served(tmp_path) as service:
            head = b"POST /v1/principals HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
            reader, writer = await service.sent(head + service.token + b"\r\n")
            body = b'{"name": "ann", "role": "both"' + b" " * 500_000 + b"}"
            for at in range(0, len(body), 50):
                piece = body[at : at + 50]
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            writer.write(b"0\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 201")
            _, writer = await service.sent(head + service.token + b"\r\n")
            await send_until_closed(writer, b"1\r\n \r\n" * 1000)
            await until(lambda: service.cut("large") == 1)

    run(main)


def test_requests_that_do_not_come_in_time_are_cut_and_those_that_are_answered_for_long_are_not(tmp_path):
    async def main():
        async with served(tmp_path) as service:
            silent, _ = await service.sent(b"")
            slow_head, _ = await service.sent(b"GET /health HTTP/1.1\r\nX: ")
            slow_body, _ = await service.sent(
                b"POST /v1/principals HTTP/1.1\r\nContent-Length: 100\r\n" + service.token + b"\r\n{"
            )
            refused, _ = await service.sent(b"POST /v1/hosts HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
            assert (await refused.readline()).startswith(b"HTTP/1.1 401")
            stream, _ = await service.sent(b"GET /v1/stream HTTP/1.1\r\n" + service.token + b"\r\n")
            await stream.readuntil(b": alive\n\n")
            await until(lambda: service.connections == 5)
            service.pass_seconds(HEAD_SECONDS - 1)
            assert service.connections == 5
            service.pass_seconds(3)
            assert await answer(silent) is None
            assert await answer(slow_head) is None
            assert service.cut("late") == 2
            service.pass_seconds(ARRIVAL_SECONDS)
            assert await answer(slow_body) is None
            await refused.read()
            assert service.cut("late") == 4
            service.pass_seconds(2 * KEEP_ALIVE_SECONDS)
            assert len(service.service.service.streams) == 1
            assert service.connections == 1

    run(main)


def test_a_connection_that_is_kept_alive_by_nothing_is_closed(tmp_path):
    async def main():
        async with served(tmp_path) as service:
            reader, writer = await service.sent(b"POST /v1/hosts HTTP/1.1\r\nContent-Length: 1\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"x")  # the body that nobody waited for: now the request is there
            await asyncio.sleep(0.05)
            service.pass_seconds(KEEP_ALIVE_SECONDS)
            assert service.connections == 1
            service.pass_seconds(2)
            await until(lambda: service.connections == 0)
            assert service.cut("idle") == 1

    run(main)


def unread_socket(port):
    """A connection whose client reads nothing, and for which the operating system keeps little."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.setblocking(False)
    return made, ("127.0.0.1", port)


def test_an_answer_that_is_not_read_waits_for_a_while_and_no_second_one_is_made(tmp_path):
    async def main():
        async with served(tmp_path) as service:
            service.service.app.openapi_schema = {"info": "x" * 2**23}
            loop = asyncio.get_running_loop()
            mine, address = unread_socket(service.port)
            with mine:
                await loop.sock_connect(mine, address)
                await loop.sock_sendall(mine, b"GET /openapi.json HTTP/1.1\r\n\r\n" * 3)
                await until(lambda: service.table.anonymous.taken > 100)
                assert service.table.anonymous.taken < 2**23 / 16384 + 10
                service.pass_seconds(UNREAD_SECONDS)
                assert service.connections == 1
                service.pass_seconds(2)
                await until(lambda: service.connections == 0)
                assert service.cut("unread") == 1

    def page(_):
        return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pleroma.service.http.resources.health.page", page)
        run(main)


def test_requests_sent_ahead_without_end_are_cut(tmp_path):
    async def main():
        async with served(tmp_path, heartbeat_seconds=0.05) as service:
            reader, writer = await service.sent(b"GET /v1/stream HTTP/1.1\r\n" + service.token + b"\r\n")
            await reader.readuntil(b": alive\n\n")
            writer.write(b"GET /health HTTP/1.1\r\n\r\n" * MAX_WAITING_REQUESTS)
            await asyncio.sleep(0.1)
            assert service.cut("large") == 0
            ahead, writer = await service.sent(b"GET /v1/stream HTTP/1.1\r\n" + service.token + b"\r\n")
            await ahead.readuntil(b": alive\n\n")
            writer.write(b"GET /health HTTP/1.1\r\n\r\n" * (MAX_WAITING_REQUESTS + 1))
            with contextlib.suppress(ConnectionError):
                assert b"HTTP/1.1" not in await ahead.read()  # no answer comes in the middle of another
            assert service.cut("large") == 1
            _, writer = await service.sent(b"GET /health HTTP/1.1\r\n\r\n" * 10_000)
            await until(lambda: service.cut("large") == 2)

    run(main)


def test_a_stream_with_another_request_behind_it_ends_with_its_connection(tmp_path):
    async def main():
        async with served(tmp_path, heartbeat_seconds=0.05) as service:
            reader, writer = await service.sent(
                b"GET /v1/stream HTTP/1.1\r\n" + service.token + b"\r\nGET /health HTTP/1.1\r\n\r\n"
            )
            await reader.readuntil(b": alive\n\n")
            streams = service.service.service.streams
            assert len(streams) == 1
            writer.close()
            await until(lambda: len(streams) == 0)

    run(main)


def test_a_flood_of_connections_does_not_close_one_that_has_shown_a_token(tmp_path):
    async def main():
        async with served(tmp_path, max_connections=64) as service:
            reader, writer = await service.sent(b"GET /v1/hosts HTTP/1.1\r\n" + service.token + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(100):
                await service.sent(b"GET / HTTP/1.1\r\n")
            await until(lambda: service.cut("room") >= 92)
            assert service.connections <= 9
            writer.write(b"GET /v1/hosts HTTP/1.1\r\n" + service.token + b"\r\n")
            await reader.readuntil(b"HTTP/1.1 200")
            later, _ = await service.sent(b"GET /v1/hosts HTTP/1.1\r\n" + service.token + b"\r\n")
            assert (await later.readline()).startswith(b"HTTP/1.1 200")

    run(main)


def test_a_connection_counts_as_that_of_whoever_asked_by_it_last(tmp_path):
    """Else one request with a token would keep a place among those who have shown one, also when the token is gone."""

    async def main():
        async with served(tmp_path) as service:
            reader, writer = await service.connect()
            wrong = b"Authorization: Bearer wrong\r\n"
            for shown, path, is_known in (
                (b"", b"/health", False),
                (service.token, b"/v1/hosts", True),
                (b"", b"/health", False),
                (service.token, b"/health", True),
                (wrong, b"/v1/hosts", False),
            ):
                writer.write(b"GET " + path + b" HTTP/1.1\r\n" + shown + b"\r\n")
                await reader.readuntil(b"\r\n\r\n")
                assert (len(service.table.known), len(service.table.anonymous)) == (is_known, not is_known), shown
                while reader._buffer:
                    await reader.read(2**16)

    run(main)


def test_endless_heads_and_thousands_of_half_requests_leave_memory_and_others_alone(tmp_path):
    """One such head took 1.5 GB, and `/health` 8 s; 1,100 half requests left no descriptor for anybody else."""

    async def main(process):
        pid = process._process.pid
        before, slowest = resident_mb(pid), 0.0
        _, endless = await asyncio.open_connection("127.0.0.1", process.port)
        endless.write(b"GET /health HTTP/1.1\r\nX: ")
        await send_until_closed(endless, b"a" * 2**20, FLOOD_BYTES)
        crowd = [endless]
        for number in range(HALF_REQUESTS):
            _, writer = await asyncio.open_connection("127.0.0.1", process.port)
            writer.write(b"GET /health HTTP/1.1\r\nX: " + b"a" * 50_000)
            crowd.append(writer)
            if number % 300 == 299:
                begin = time.monotonic()
                async with httpx.AsyncClient(timeout=30) as honest:
                    assert (await honest.get(f"{process.url}/health")).status_code == 200
                    assert (await honest.get(f"{process.url}/v1/hosts", headers=process.headers)).status_code == 200
                slowest = max(slowest, time.monotonic() - begin)
        assert resident_mb(pid) - before < 64
        assert slowest < HONEST_SECONDS
        for writer in crowd:
            writer.transport.abort()

    with ServiceProcess(tmp_path / "pleroma") as process, more_descriptors():
        run(lambda: main(process), 120)


@contextlib.contextmanager
def more_descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_descriptor_limit()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_descriptors_is_raised_and_connections_leave_some_to_others(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:

        async def main():
            async with served(tmp_path) as service:
                return service.table.anonymous.slots + service.table.known.slots

        assert 100 < run(main) <= 256
        with ServiceProcess(tmp_path / "pleroma") as process:
            assert resource.prlimit(process._process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        assert free_descriptors() < 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

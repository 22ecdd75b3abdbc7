"""Strangers at the HTTPS port: half handshakes are cut in time and bounded in number, and the bounds of HTTP hold."""

import asyncio
import contextlib
import socket
import ssl
from contextlib import asynccontextmanager

import httpx
import pytest
import uvloop

from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, running
from pleroma.service.http.connections.guarded_http import HEAD_SECONDS, MAX_HEAD_BYTES, UNREAD_SECONDS
from support.certificates import certified
from support.waiting import until

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=LOOPS)
def run(request):
    """Runs a coroutine function, on the event loop of a test or on that of services."""

    def run_on_loop(main, seconds=30.0):
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(asyncio.wait_for(main(), seconds))

    return run_on_loop


def client_hello():
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()


class Served:
    def __init__(self, service, files):
        self.service = service
        self.table = service.service.connections
        self.port = int(service.url.rpartition(":")[2])
        self.trust = ssl.create_default_context(cafile=files.certificate)
        self.writers = []

    async def sent(self, data, trust=None):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trust)
        self.writers.append(writer)
        writer.write(data)
        await writer.drain()
        return reader, writer

    async def asked(self, **more):
        """The status of an honest request."""
        async with httpx.AsyncClient(verify=self.trust, **more) as client:
            answer = await client.get(f"{self.service.url}/v1/hosts", headers=self.headers)
            return answer.status_code

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.service.token}"}

    def cut(self, reason):
        samples = [each for family in self.table.metrics() for each in family.samples]
        found = [each for each in samples if each.name == "pleroma_connections_cut_total"]
        return sum(each.value for each in found if each.labels["reason"] == reason)

    @property
    def connections(self):
        return len(self.table.anonymous) + len(self.table.known)

    def pass_seconds(self, seconds):
        for _ in range(seconds):
            self.table.sweep()


@asynccontextmanager
async def served(folder, files, **settings):
    deployment = Deployment(port=0, https=files, settings=ServiceSettings(**settings))
    async with running(folder, build("single:2"), deployment) as service:
        made = Served(service, files)
        try:
            yield made
        finally:
            for writer in made.writers:
                writer.transport.abort()
            await until(lambda: made.connections == 0)


def test_half_handshakes_are_cut_when_their_time_is_over(tmp_path, files, run):
    async def main():
        async with served(tmp_path, files) as service:
            hello = client_hello()
            halves = [(await service.sent(begin))[0] for begin in (b"", hello[:1], hello[:100], hello)]
            await until(lambda: service.connections == len(halves))
            service.pass_seconds(HEAD_SECONDS)
            assert service.connections == len(halves)
            assert await service.asked() == 200
            service.pass_seconds(2)
            for reader in halves:
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            assert service.cut("late") == len(halves)
            await until(lambda: service.connections == 0)

    run(main)


def test_what_is_no_tls_is_closed_at_once_and_nothing_is_logged(tmp_path, files, run, caplog):
    async def main():
        async with served(tmp_path, files) as service:
            caplog.clear()
            for noise in (b"GET /health HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"a" * 4096, bytes(1000)):
                reader, _ = await service.sent(noise)
                with contextlib.suppress(ConnectionError):
                    assert b"HTTP" not in await reader.read()
            await until(lambda: service.connections == 0)
            assert not caplog.records
            assert await service.asked() == 200

    run(main)


def test_a_flood_of_half_handshakes_takes_few_seats_and_closes_none_that_has_shown_a_token(tmp_path, files, run):
    async def main():
        async with served(tmp_path, files, max_connections=128) as service:
            reader, writer = await service.sent(b"", service.trust)
            ask = f"GET /v1/hosts HTTP/1.1\r\nAuthorization: Bearer {service.service.token}\r\n\r\n".encode()
            writer.write(ask)
            await reader.readuntil(b"HTTP/1.1 200")
            hello = client_hello()
            for number in range(100):
                await service.sent(hello[: number * 3])
            await until(lambda: service.cut("room") >= 80)
            assert service.table.anonymous.taken <= service.table.anonymous.slots
            assert len(service.table.anonymous) <= 12
            writer.write(ask)
            await reader.readuntil(b"HTTP/1.1 200")
            assert await service.asked() == 200

    run(main)


def test_the_bounds_of_a_request_and_of_an_answer_hold_within_tls(tmp_path, files, run, monkeypatch):
    async def main():
        async with served(tmp_path, files) as service:
            _, writer = await service.sent(b"GET /health HTTP/1.1\r\nX: ", service.trust)
            for _ in range(2**25 // MAX_HEAD_BYTES):
                writer.write(b"a" * MAX_HEAD_BYTES)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                if service.cut("large"):
                    break
            assert service.cut("large") == 1
            await until(lambda: service.connections == 0)

            service.service.app.openapi_schema = {"info": "x" * 2**23}
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", service.port))
            _, writer = await asyncio.open_connection(
                sock=made, ssl=service.trust, server_hostname="localhost", limit=1024
            )
            service.writers.append(writer)
            writer.transport.pause_reading()
            writer.write(b"GET /openapi.json HTTP/1.1\r\n\r\n")
            await until(lambda: service.table.anonymous.taken > 100)
            service.pass_seconds(UNREAD_SECONDS)
            assert service.connections == 1
            service.pass_seconds(2)
            await until(lambda: service.connections == 0)
            assert service.cut("unread") == 1

    monkeypatch.setattr("pleroma.service.http.resources.health.page", lambda _: "")
    run(main)


def test_a_service_stops_while_strangers_shake_hands(tmp_path, files, run):
    async def main():
        async with running(tmp_path, build("single:2"), Deployment(port=0, https=files)) as service:
            table = service.service.connections
            port = int(service.url.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: len(table.anonymous) == 1)
        await until(lambda: len(table.anonymous) == 0)
        writer.close()

    run(main, 4.0)

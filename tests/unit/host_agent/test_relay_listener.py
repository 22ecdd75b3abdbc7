"""The socket for requests: who asks, and how much of it one user may have."""

import asyncio
import os
import tempfile
from pathlib import Path

import httpx
import pytest

from pleroma.errors import SetupError
from pleroma.host_agent.agent_settings import AgentLimits
from pleroma.host_agent.local_programs import Credentials
from pleroma.host_agent.relay_listener import MAX_REQUESTS_OF_A_USER, RelayListener
from pleroma.wire.api_call import ApiRequest, ApiResponse
from support.waiting import run, until


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(prefix="agent") as folder:
        yield Path(folder) / "agent.sock"


def client(place, **headers):
    limits = httpx.Limits(max_connections=100)
    transport = httpx.AsyncHTTPTransport(uds=str(place), limits=limits)
    return httpx.AsyncClient(transport=transport, base_url="http://agent", headers=headers, timeout=10)


def test_a_request_comes_with_who_asks_and_nothing_that_means_nothing(place):
    asked = []

    async def answer(request, who, user):
        asked.append((request, who, user))
        return ApiResponse(201, (("etag", "e"),), b"done")

    async def main():
        named = {"Authorization": "Bearer plr_t", "pleroma-principal": "gr%C3%BCn", "If-None-Match": "e", "X-Odd": "1"}
        async with RelayListener(place, None, answer, AgentLimits()), client(place, **named) as asking:
            got = await asking.post("/v1/a?b=c%20d", content=b"body")
            assert (got.status_code, got.headers["etag"], got.content) == (201, "e", b"done")
            await asking.get("/x", headers={"Authorization": "Basic plr_t", "pleroma-principal": ""})
            assert (await asking.get("/" + 9000 * "x")).status_code == 400
            assert (await asking.head("/x")).content == b""
        assert not place.exists()

    run(main)
    (first, who, user), (_, other, _), _ = asked
    assert first == ApiRequest("POST", "/v1/a?b=c%20d", (("if-none-match", "e"),), b"body")
    assert (who, other) == (Credentials("plr_t", "grün"), Credentials(None, None))
    assert (user.pid, user.uid) == (os.getpid(), os.getuid())


def test_requests_of_one_user_leave_room_for_those_of_others(place):
    running, most, go = 0, 0, asyncio.Event()

    async def answer(*_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1
        return ApiResponse(200)

    async def main():
        async with RelayListener(place, None, answer, AgentLimits()), client(place) as asking:
            many = [asyncio.create_task(asking.get("/")) for _ in range(MAX_REQUESTS_OF_A_USER + 5)]
            await until(lambda: running == MAX_REQUESTS_OF_A_USER)
            go.set()
            assert {each.status_code for each in await asyncio.gather(*many)} == {200}
        assert most == MAX_REQUESTS_OF_A_USER

    run(main)


def test_one_user_has_half_of_the_connections_and_the_next_is_closed(place):
    async def answer(*_):
        return ApiResponse(200)

    async def main():
        async with RelayListener(place, None, answer, AgentLimits(max_connections=4)):
            open_ones = [await asyncio.open_unix_connection(str(place)) for _ in range(2)]
            for reader, writer in open_ones:
                writer.write(b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            reader, writer = await asyncio.open_unix_connection(str(place))
            assert await reader.read() == b""
            writer.close()
            open_ones[0][1].close()
            await asyncio.sleep(0)
            async with client(place) as asking:
                async with asyncio.timeout(10):
                    while True:
                        try:
                            assert (await asking.get("/")).status_code == 200
                            break
                        except httpx.RequestError:
                            await asyncio.sleep(0.01)
            open_ones[1][1].close()

    run(main)


def test_the_requests_and_answers_of_one_user_that_are_under_way_are_bounded_together(place):
    small, answer_bytes = AgentLimits(max_held_bytes=2_500_000), 1_000_000

    async def answer(*_):
        return ApiResponse(200, (), bytes(answer_bytes))

    async def refused(sent):
        """The reader and writer of a connection that sends something, and whether the agent cut it."""
        reader, writer = await asyncio.open_unix_connection(str(place), limit=1_000)
        writer.write(sent)
        try:
            async with asyncio.timeout(0.5):
                return writer, await reader.read(1) == b""
        except TimeoutError:
            return writer, False
        except ConnectionError:
            return writer, True

    async def main():
        half = b"POST / HTTP/1.1\r\nHost: agent\r\nContent-Length: 1000000\r\n\r\n" + bytes(900_000)
        async with RelayListener(place, None, answer, small) as listener:
            many = [await refused(half) for _ in range(3)]
            assert [cut for _, cut in many] == [False, False, True]
            for writer, _ in many:
                writer.close()
            await until(lambda: listener._held.total() == 0)
            many = [await refused(b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n") for _ in range(3)]
            assert [cut for _, cut in many] == [False, False, True]
            for writer, _ in many:
                writer.close()
            await until(lambda: listener._held.total() == 0)
            async with client(place) as asking:
                assert len((await asking.post("/", content=bytes(900_000))).content) == answer_bytes

    run(main)


def test_limits_are_positive():
    with pytest.raises(SetupError, match="positive"):
        AgentLimits(max_programs=0)

"""Programs with rights of their own behind one agent, with a real controller: what each gets, and after a restart."""

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

import pleroma
from pleroma.client.agent_address import SYSTEM_AGENT_SOCKET, AgentAddress
from pleroma.errors import ClientError, ControllerAway, RequestRefused
from pleroma.host_agent import AgentSettings, HostAgent
from pleroma.service.http.forgery.event_keys import EventKeys
from support.agent_parts import AppCalls, StubLink
from support.service.in_process import ADMIN, world
from support.waiting import run, until

CHEAP = {"price": 5.0, "volume": 1, "ticker": "IBM"}
DEAR = {"price": 500.0, "volume": 1, "ticker": "IBM"}


class Machine:
    """A machine with an agent, beside a controller. `link` is the machine's event socket."""

    def __init__(self, api, socket):
        self.api, self.socket = api, socket
        self.calls = AppCalls(api.app)
        self.links = []

    @property
    def link(self):
        return self.links[-1]

    def agent(self):
        def open_link(attachment, receive):
            self.links.append(StubLink(attachment, receive))
            return self.links[-1]

        return HostAgent(AgentSettings("http://unused", self.socket), self.calls, open_link)

    async def token(self, name, **rights):
        made = await self.api.post("/v1/principals", {"name": name, "role": "both", **rights})
        return made["token"]

    def connect(self, token):
        return pleroma.connect(token=token, patience=5)

    async def status(self):
        transport = httpx.AsyncHTTPTransport(uds=self.socket)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return (await client.get("/agent")).json()


@asynccontextmanager
async def machine(folder, monkeypatch):
    async with world(folder, keys=EventKeys.open(folder)) as api:
        with tempfile.TemporaryDirectory(prefix="agent") as short:
            socket = str(Path(short) / "agent.sock")
            monkeypatch.setenv("PLEROMA_AGENT", socket)
            yield Machine(api, socket)


async def next_price(subscription):
    return (await asyncio.wait_for(subscription.receive(), 10)).event["price"]


def test_two_programs_share_the_port_and_each_gets_what_its_own_token_may_read(tmp_path, monkeypatch):
    async def main():
        async with machine(tmp_path, monkeypatch) as here, here.agent():
            low = await here.token("low", publish={}, read={"stock": "price < 100"})
            high = await here.token("high", publish={"stock": "price > 1"}, read={"stock": "true"})
            async with here.connect(low) as small, here.connect(high) as large:
                assert (small.host, large.host) == ("h1", "h1")
                with pytest.raises(RequestRefused, match="price"):
                    await small.subscribe("stock", "price < 200")
                with pytest.raises(RequestRefused):
                    await small.advertise("stock")
                cheap = await small.subscribe("stock", "price < 100")
                everything = await large.subscribe("stock")
                publisher = await large.advertise("stock", "price > 1")
                publisher.publish(CHEAP)
                publisher.publish(DEAR)
                assert [await next_price(everything) for _ in range(2)] == [5.0, 500.0]
                assert await next_price(cheap) == 5.0
                await until(lambda: len(here.link.sent) == 2)
                for _, packet in here.link.sent:  # as if it came from the network
                    here.link.receive(packet)
                publisher.publish(DEAR | {"price": 6.0})
                assert await next_price(cheap) == 6.0  # and nothing in between but a repetition
                assert cheap.info.duplicates == 1
                assert small.info["malformed"] == small.info["unknown"] == 0
                status = await here.status()
                assert (status["programs"], status["subscriptions"], status["advertisements"]) == (2, 2, 1)
                assert status["events"]["published"] == 3
                assert status["events"]["refused"] == 0
            await until(lambda: not here.api.app.state.service.state.registrations)
            assert (await here.status())["programs"] == 0

    run(main)


def test_an_agent_that_was_killed_is_found_again_and_everything_goes_on(tmp_path, monkeypatch):
    async def main():
        async with machine(tmp_path, monkeypatch) as here:
            first = await here.agent().__aenter__()
            async with here.connect(ADMIN) as client, here.connect(ADMIN) as other:
                subscription = await client.subscribe("stock", "price < 100")
                publisher = await other.advertise("stock")
                ids = subscription.id, publisher.id
                publisher.publish(CHEAP)
                assert await next_price(subscription) == 5.0
                await first.__aexit__()
                await until(lambda: not client.is_connected and not other.is_connected)
                async with here.agent() as second:
                    await client.connected()
                    await other.connected()
                    await until(lambda: sum(len(each.registered) for each in second.programs) == 2)
                    assert (subscription.id, publisher.id) == ids
                    sent = publisher.info.frames
                    while publisher.info.frames == sent:  # until then, what is published counts as unsent
                        publisher.publish(CHEAP | {"price": 7.0})
                        await asyncio.sleep(0.01)
                    assert await next_price(subscription) == 7.0
                    assert len(here.links) == 2
                    await client.close()
                    await other.close()

    run(main)


def test_waste_and_overrun_at_the_agent_are_counted_where_the_program_sees_them(tmp_path, monkeypatch):
    async def main():
        async with (
            machine(tmp_path, monkeypatch) as here,
            here.agent() as agent,
            here.connect(ADMIN) as client,
            here.connect(ADMIN) as other,
        ):
            subscription = await client.subscribe("stock", "price < 100 and price > 99.99")
            publisher = await other.advertise("stock")
            publisher.publish(CHEAP | {"price": 99.98})
            await until(lambda: here.link.sent)
            here.link.receive(here.link.sent[0][1])
            here.link.overrun = 3
            next(iter(agent.programs)).overrun += 2
            await until(lambda: subscription.info.wasted == 1 and client.info["overrun"] == 5)
            assert subscription.waiting == 0

    run(main)


def test_who_finds_no_agent_is_told_where_it_was_looked_for(tmp_path, monkeypatch):
    async def main():
        monkeypatch.setenv("PLEROMA_AGENT", str(tmp_path / "no.sock"))
        with pytest.raises(ControllerAway, match=r"no\.sock"):
            async with pleroma.connect(token=ADMIN, patience=0):
                pass

    run(main)


def test_the_agent_is_looked_for_where_it_may_be(tmp_path):
    find = AgentAddress.find
    assert find({"PLEROMA_AGENT": "/a/b.sock", "XDG_RUNTIME_DIR": str(tmp_path)}).path == "/a/b.sock"
    assert find({"XDG_RUNTIME_DIR": str(tmp_path)}).path == find({}).path == str(SYSTEM_AGENT_SOCKET)
    (tmp_path / "pleroma").mkdir()
    (tmp_path / "pleroma" / "agent.sock").touch()
    assert find({"XDG_RUNTIME_DIR": str(tmp_path)}).path == str(tmp_path / "pleroma" / "agent.sock")
    assert AgentAddress.parse("unix:///a/b.sock").path == AgentAddress.parse("unix:/a/b.sock").path == "/a/b.sock"
    for wrong in ("unix:", "unix:a", "http://a", "unix:/" + 100 * "a"):
        with pytest.raises(ClientError):
            AgentAddress.parse(wrong)


def test_the_token_of_the_environment_is_for_the_agent_alone(monkeypatch):
    monkeypatch.setenv("PLEROMA_TOKEN", ADMIN)
    monkeypatch.setenv("PLEROMA_PRINCIPAL", "somebody")
    assert pleroma.connect()._token == ADMIN
    assert pleroma.connect()._principal == "somebody"
    assert pleroma.connect(token=ADMIN[1:])._token == ADMIN[1:]
    assert pleroma.connect("http://elsewhere")._token is None


def test_the_socket_for_requests_is_bounded(tmp_path, monkeypatch):
    async def main():
        async with machine(tmp_path, monkeypatch) as here, here.agent():
            transport = httpx.AsyncHTTPTransport(uds=here.socket)
            async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
                assert (await client.get("/v1/schemas")).status_code == 401
                assert (await client.post("/v1/schemas", content=bytes(2**20 + 1))).status_code == 413
                assert (await client.get("/v1/stream")).status_code == 400
                assert (await client.head("/health")).status_code in (200, 405)
                here.calls.is_away = True
                away = await client.get("/v1/schemas")
                assert (away.status_code, away.json()["error"]["code"]) == (502, "controller_away")
            reader, writer = await asyncio.open_unix_connection(here.socket)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + bytes(2 * 65_536))
            assert await reader.read() == b""
            writer.close()

    run(main)

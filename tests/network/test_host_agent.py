"""Several programs at one host of real switches, behind its agent: each with its own rights, also after a kill."""

import asyncio
import json
import signal
import tempfile
from pathlib import Path

from pleroma.routing import build
from support.network.agent_process import AgentProcess
from support.network.host_programs import Program, place
from support.waiting import LIMIT_SECONDS

LINE = build("line:2")
SUBSCRIBER = """
import asyncio, json, os, sys
import pleroma
from pleroma.errors import RequestRefused

async def main(principal, filter):
    async with pleroma.connect(principal=principal, patience=60) as client:
        try:
            await client.subscribe("weather", "true")
            print(json.dumps("may read everything"), flush=True)
        except RequestRefused as refused:
            print(json.dumps(refused.allowed), flush=True)
        async with await client.subscribe("weather", filter) as subscription:
            print(json.dumps(client.host), flush=True)
            async for event in subscription:
                print(json.dumps(event["temperature"]), flush=True)
                if event["temperature"] == 0:
                    print(json.dumps([subscription.info.duplicates, client.info["forged"]]), flush=True)
                    return

asyncio.run(main(*sys.argv[1:]))
"""
PUBLISHER = """
import json, sys
from pleroma.client.blocking import connect

url, token, host = sys.argv[1:]
with connect(url, token, host, principal="admin", patience=60) as client:
    publisher = client.advertise("weather")
    print(json.dumps(client.host), flush=True)
    for line in sys.stdin:
        publisher.publish({"temperature": json.loads(line), "wind": 1})
        print(publisher.info.unsent, flush=True)
"""


def test_programs_at_one_host_have_their_own_rights_and_go_on_with_an_agent_that_was_killed(tmp_path, monkeypatch):
    async def main():
        async with place(tmp_path, LINE) as here:
            with tempfile.TemporaryDirectory(prefix="agent") as short:
                await with_agent(here, str(Path(short) / "agent.sock"))

    async def with_agent(here, socket):
        monkeypatch.setenv("PLEROMA_AGENT", socket)
        cold, warm = await principal(here, "cold", "temperature < 20"), await principal(here, "warm", "true")
        agent = AgentProcess(here.lab, "h2", socket)
        try:
            assert (await agent.ready())["socket"] == socket
            programs = []
            for name, token, wanted in (("cold", cold, "temperature < 20"), ("warm", warm, "true")):
                monkeypatch.setenv("PLEROMA_TOKEN", token)
                programs.append(Program(here.lab, "h2", SUBSCRIBER, name, wanted))
            here.programs.extend(programs)
            first, second = programs
            assert "temperature < 20" in json.loads(await first.line())
            assert json.loads(await second.line()) == "may read everything"
            assert [json.loads(await each.line()) for each in programs] == ["h2", "h2"]
            publisher = here.start("h1", PUBLISHER)
            assert json.loads(await publisher.line()) == "h1"
            for temperature in (5.0, 30.0, 10.0):
                assert await publisher.told(temperature) == 0
            assert [json.loads(await second.line()) for _ in range(3)] == [5.0, 30.0, 10.0]
            assert [json.loads(await first.line()) for _ in range(2)] == [5.0, 10.0]
            standing = set(here.service.service.state.registrations)
            agent.end()
            agent = AgentProcess(here.lab, "h2", socket)
            await agent.ready()
            await back(socket)
            assert set(here.service.service.state.registrations) == standing
            for temperature in (40.0, 0.0):
                assert await publisher.told(temperature) == 0
            assert json.loads(await second.line()) == 40.0
            assert (await first.rest(), await second.rest()) == ([0.0, [0, 0]], [0.0, [0, 0]])
            await publisher.rest()
            assert agent.end(signal.SIGTERM) == 0
        finally:
            if agent.process.poll() is None:
                agent.end()

    asyncio.run(asyncio.wait_for(main(), 4 * LIMIT_SECONDS))


async def principal(here, name, may_read):
    """The token of a new principal."""
    from pleroma.client.api import ControllerApi

    api = ControllerApi(here.service.url, here.service.token)
    body = {"name": name, "role": "subscriber", "read": {"weather": may_read}}
    made = (await api.ask("POST", "/v1/principals", body)).body
    await api.close()
    return made["token"]


async def back(socket):
    """Until both programs have found the new agent, and it knows their subscriptions."""
    from pleroma.client.api import ControllerApi

    api = ControllerApi(f"unix:{socket}", None)
    async with asyncio.timeout(LIMIT_SECONDS):
        while (await api.ask("GET", "/agent", patience=10)).body["subscriptions"] < 3:
            await asyncio.sleep(0.05)
    await api.close()

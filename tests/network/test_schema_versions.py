"""A later version of a schema on real switches: programs at hosts, one of them behind an agent, go on meanwhile."""

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from pleroma.content import Category, Schema
from pleroma.control import ExtendSchema
from pleroma.routing import build
from support.network.agent_process import AgentProcess
from support.network.host_programs import Program, place
from support.network.weather_requests import WEATHER
from support.waiting import LIMIT_SECONDS

LINE = build("line:3")
STORMS = Schema(
    "weather",
    (
        *(replace(each, high=500) if each.name == "wind" else each for each in WEATHER.attributes),
        Category("season", True, ("winter", "summer")),
    ),
)
SUBSCRIBER = """
import asyncio, json, sys
import pleroma

async def main(url, token, host):
    async with pleroma.connect(url or None, token=token, host=host, principal="admin", patience=60) as client:
        async with await client.subscribe("weather", "temperature > 10") as subscription:
            print(json.dumps(client.host), flush=True)
            async for event in subscription:
                print(json.dumps(event.to_json()), flush=True)
                if event["temperature"] == 40:
                    print(json.dumps([client.info["malformed"], subscription.info.duplicates]), flush=True)
                    return

asyncio.run(main(*sys.argv[1:]))
"""
PUBLISHER = """
import json, sys
from pleroma.client.blocking import connect
from pleroma.errors import ContentError

url, token, host = sys.argv[1:]
with connect(url, token, host, principal="admin", patience=60) as client:
    publisher = client.advertise("weather")
    print(json.dumps(client.host), flush=True)
    for line in sys.stdin:
        try:
            print(publisher.publish(json.loads(line)), flush=True)
        except ContentError:
            print("null", flush=True)
"""


def test_programs_go_on_and_get_what_is_new(tmp_path, monkeypatch):
    async def main():
        async with place(tmp_path, LINE) as here:
            with tempfile.TemporaryDirectory(prefix="agent") as short:
                socket = str(Path(short) / "agent.sock")
                monkeypatch.setenv("PLEROMA_AGENT", socket)
                agent = AgentProcess(here.lab, "h3", socket)
                try:
                    await agent.ready()
                    await exchange(here)
                finally:
                    agent.end()

    async def exchange(here):
        alone = here.start("h2", SUBSCRIBER)
        behind = Program(here.lab, "h3", SUBSCRIBER, "", here.service.token, "any")
        here.programs.append(behind)
        assert [json.loads(await each.line()) for each in (alone, behind)] == ["h2", "h3"]
        publisher = here.start("h1", PUBLISHER)
        assert json.loads(await publisher.line()) == "h1"
        standing = set(here.service.service.state.registrations)
        calm = [{"temperature": float(20 + n), "wind": n} for n in range(10)]
        storm = {"temperature": 30.0, "wind": 400, "season": "winter"}
        for event in calm[:5]:
            assert await publisher.told(event)
        assert await publisher.told(storm) is None
        await here.service.service.controller.submit(ExtendSchema(STORMS))
        for event in calm[5:]:
            assert await publisher.told(event)
        async with asyncio.timeout(LIMIT_SECONDS):
            while await publisher.told(storm) is None:
                await asyncio.sleep(0.1)
        for each in (alone, behind):
            assert [json.loads(await each.line()) for _ in range(11)] == [*calm, storm]
        last = {"temperature": 40.0, "wind": 1}
        assert await publisher.told(last)
        for each in (alone, behind):
            assert await each.rest() == [last, [0, 0]]
        assert set(here.service.service.state.registrations) <= standing
        await publisher.rest()

    asyncio.run(asyncio.wait_for(main(), 4 * LIMIT_SECONDS))

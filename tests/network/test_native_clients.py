"""Programs at hosts that have no network but the switches: they reach the controller and each other through these."""

import asyncio
import json
import subprocess
import sys

import pytest

from pleroma.control import CreateSchema
from pleroma.index.address import IPV4, IPV6
from pleroma.lab import Lab
from pleroma.routing import build, with_ipv4
from pleroma.service import Deployment, ServiceSettings, running
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from support.network.host_programs import Program, place
from support.network.weather_requests import WEATHER
from support.network.world import STEADY, free_port
from support.waiting import LIMIT_SECONDS

LINE = build("line:3")
SUBSCRIBER = """
import asyncio, json, sys
import pleroma

async def main(url, token, host):
    async with pleroma.connect(url, token=token, host=host, principal="admin", patience=60) as client:
        async with await client.subscribe("weather", "temperature > 10 and wind < 20") as subscription:
            print(client.host, flush=True)
            async for packet in subscription.packets():
                event = packet.event
                assert packet.payload == event["wind"] * b"wind", packet
                print(json.dumps([event["temperature"], event["wind"]]), flush=True)
                if event["temperature"] == 40:
                    print(json.dumps(client.info), flush=True)
                    return

asyncio.run(main(*sys.argv[1:]))
"""
PUBLISHER = """
import json, sys
from pleroma.client.blocking import connect

url, token, host = sys.argv[1:]
with connect(url, token, host, principal="admin", patience=60) as client:
    publisher = client.advertise("weather")
    print(client.host, flush=True)
    for line in sys.stdin:
        for temperature, wind in json.loads(line):
            publisher.publish({"temperature": temperature, "wind": wind}, payload=wind * b"wind")
        print(publisher.info.unsent, flush=True)
"""
EVENTS = [(float(n % 41 - 10), n % 40) for n in range(200)]
MATCHING = [[t, w] for t, w in EVENTS if t > 10 and w < 20 and t != 40]
LAST = [(40.0, 1)]


def run(main):
    asyncio.run(asyncio.wait_for(main(), 3 * LIMIT_SECONDS))


async def joined(lab):
    """Until all links were found, and events are forwarded by every switch of the line."""
    async with asyncio.timeout(LIMIT_SECONDS):
        for switch in LINE.switches:
            while not any("table=1" in line for line in await asyncio.to_thread(lab.flows, switch)):
                await asyncio.sleep(0.1)


async def exchange(subscriber, publisher):
    """All events reach the subscriber that it wants, and no others."""
    assert await publisher.told(EVENTS) == 0
    assert await publisher.told(LAST) == 0
    *got, info = await subscriber.rest()
    assert got == [*MATCHING, [40.0, 1]]
    assert info["malformed"] == info["unknown"] == 0
    await publisher.rest()


@pytest.mark.parametrize("version", [6, 4])
def test_events_pass_between_programs_that_know_nothing_but_the_switches(tmp_path, version):
    async def main():
        topology, addresses = (LINE, IPV6) if version == 6 else (with_ipv4(LINE), IPV4)
        async with place(tmp_path, topology, addresses) as here:
            publisher = here.start("h1", PUBLISHER)
            assert await publisher.line() == "h1\n"
            assert await publisher.told(EVENTS) == 0  # nobody has subscribed, and who does gets none of these
            subscriber = here.start("h3", SUBSCRIBER)
            assert await subscriber.line() == "h3\n"
            await exchange(subscriber, publisher)
            assert not here.service.service.state.registrations

    run(main)


def test_hosts_that_nobody_described_join_a_network_that_nobody_described(tmp_path):
    async def main():
        async with place(tmp_path, LINE, discovers=True) as here:
            subscriber = here.start("h3", SUBSCRIBER, "inband://?host=kiosk")
            publisher = here.start("h1", PUBLISHER, "inband://[ff05::706c]", "ticker")
            assert await subscriber.line() == "kiosk\n"
            assert await publisher.line() == "ticker\n"
            hosts = here.service.service.state.topology.host
            assert {name: (h.switch, h.port, h.address) for name, h in hosts.items()} == {
                "kiosk": ("s3", 1, LINE.find_host("h3").address),
                "ticker": ("s1", 1, LINE.find_host("h1").address),
            }
            await joined(here.lab)
            await exchange(subscriber, publisher)

    run(main)


def test_events_go_on_while_the_controller_is_away(tmp_path):
    async def main():
        async with place(tmp_path, LINE) as here:
            subscriber = here.start("h3", SUBSCRIBER)
            publisher = here.start("h1", PUBLISHER)
            assert (await subscriber.line(), await publisher.line()) == ("h3\n", "h1\n")
            plane = here.service.service.plane
            await asyncio.to_thread(here.lab.set_controller, f"tcp:127.0.0.1:{free_port()}")  # where nobody is
            async with asyncio.timeout(LIMIT_SECONDS):
                while any(each.peer for each in plane.switches().values()):
                    await asyncio.sleep(0.05)
            assert await publisher.told(EVENTS) == 0
            assert [json.loads(await subscriber.line()) for _ in MATCHING] == MATCHING

    run(main)


def test_programs_find_a_controller_again_that_was_started_anew(tmp_path):
    async def main():
        port = free_port()
        settings = OpenFlowSettings(("127.0.0.1", port), discovers=True, timeouts=STEADY)
        leases = ServiceSettings(lease_seconds=9)
        lab = await asyncio.to_thread(Lab.up, LINE, controller=f"tcp:127.0.0.1:{port}")
        programs = []
        try:
            async with running(tmp_path, LINE, Deployment(port=0, settings=leases, plane=settings)) as first:
                await first.service.controller.submit(CreateSchema(WEATHER))
                for host, code, called in (("h3", SUBSCRIBER, "kiosk"), ("h1", PUBLISHER, "ticker")):
                    programs.append(Program(lab, host, code, "inband://", first.token, called))
                    assert await programs[-1].line() == f"{called}\n"
                await joined(lab)
            async with running(tmp_path, LINE, Deployment(port=0, settings=leases, plane=settings)) as second:
                plane = second.service.plane
                async with asyncio.timeout(LIMIT_SECONDS):
                    while len(plane.requests.sessions) < 2:
                        await asyncio.sleep(0.05)
                assert set(second.service.state.topology.host) == {"kiosk", "ticker"}
                await exchange(*programs)
        finally:
            for program in programs:
                program.close()
            await asyncio.to_thread(lab.close)

    run(main)


def test_a_second_program_at_a_host_is_told_that_there_is_one(tmp_path):
    async def main():
        async with place(tmp_path, LINE) as here:
            first = here.start("h3", SUBSCRIBER)
            assert await first.line() == "h3\n"
            code = PUBLISHER.replace("with connect", "import pleroma.errors\nwith connect")
            second = await asyncio.to_thread(
                here.lab.run,
                "h3",
                [sys.executable, "-c", code, "inband://", here.service.token, "any"],
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                stdin=subprocess.DEVNULL,
            )
            assert second.returncode != 0
            assert "another program on this host receives events already" in second.stderr

    run(main)

"""The whole loop on real switches: what was collected is watched, a plan is adopted, and does exactly what was said."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.content.filter_json import to_json
from pleroma.control import Register
from pleroma.index.address import IPV6
from pleroma.pipeline import spark_needs
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake_situation import shortcomings, situation_of
from pleroma.pipeline.passes.summary_pass import gather_here
from pleroma.pipeline.watch.journal import Journal
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.forecast import forecast
from pleroma.routing import build
from pleroma.service import CollectingSettings
from pleroma.wire import Codec
from support.network.host_programs import place
from support.network.host_sockets import HostSockets
from support.network.real_tables import RealTables
from support.network.weather_requests import WEATHER, random_event, random_filter
from support.waiting import LIMIT_SECONDS, until

RING = replace(build("ring:5"), limits={"R2": 80, "R5": 60})
FIRST, *SUBSCRIBING, SECOND = (host.name for host in RING.hosts)
PUBLISHED = {FIRST: "wind < 32", SECOND: "wind >= 32"}
"""Each event has one host that may publish it, and nobody subscribes there."""
PUBLISHER = """
import json, sys
from pleroma.client.blocking import connect

url, token, host, filter = sys.argv[1:]
with connect(url, token, host, principal="admin", patience=60) as client:
    publisher = client.advertise("weather", filter)
    print(client.host, flush=True)
    for line in sys.stdin:
        for event in json.loads(line):
            publisher.publish(event)
        print(publisher.info.unsent, flush=True)
"""
ROUND_EVENTS, SUBSCRIPTIONS = 500, 60
WATCH = ("--window", "1s", "--lateness", "0s", "--least", "1", "--period", "100ms", "--once", "--json")
"""The last window that has closed is a reason to look for a plan, whatever it has."""
AT_ONCE = 20
"""Events on their way at a time: a switch that gets no time for a while drops what its buffers do not hold."""


async def published(publishers, events):
    """Each event by the host that may publish it."""
    for host, text in PUBLISHED.items():
        mine = events[np.flatnonzero(events.matches(Filter.parse(WEATHER, text)))]
        assert await publishers[host].told([dict(each) for each in mine]) == 0


async def subscribed(controller):
    draw = Random(7)
    for number in range(SUBSCRIPTIONS):
        boxes = to_json(Filter.parse(WEATHER, random_filter(draw, 0.15)))
        host = SUBSCRIBING[number % len(SUBSCRIBING)]
        await controller.submit(Register("subscription", "admin", host, "weather", boxes))


async def watched(lake, service):
    """One pass of `pipeline watch` over what has landed: what it says of its decision to look for a plan."""
    token = ("--url", service.url, "--token-file", str(service.token_file))
    words = [sys.executable, "-m", "pleroma.cli", "pipeline", "watch", lake.url, *WATCH, "--master", "local[1]", *token]
    environment = os.environ | {"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    job = await asyncio.create_subprocess_exec(*words, env=environment, **pipes)
    out, err = await job.communicate()
    assert job.returncode == 0, err.decode()
    assert b"the lake does not know" not in err
    tuned = [each["decision"] for each in map(json.loads, out.splitlines()) if "decision" in each]
    assert [each["verdict"] for each in tuned] == ["tune"], err.decode()
    return tuned[0]


async def received(sockets, publishers, situation, plan, events):
    """(host, event) of all packets that come to hosts where nobody publishes, while some events are published."""
    codec, got = Codec(WEATHER, 0), []
    for first in range(0, len(events), AT_ONCE):
        part = events[first : first + AT_ONCE]
        await published(publishers, part)
        expected = len(got) + forecast(situation, plan.index, plan.members, part).at_hosts.deliveries
        async with asyncio.timeout(LIMIT_SECONDS):
            while len(got) < expected:
                got += await asyncio.to_thread(sockets.received, 0.1)
    while more := await asyncio.to_thread(sockets.received, 0.3):  # and nothing beyond that
        got += more
    packets = [(host, codec.decode(payload)) for host, payload in got]
    assert {packet.epoch for _, packet in packets} == {plan.epoch}
    return [(host, packet.event) for host, packet in packets]


@pytest.mark.skipif(spark_needs.missing() is not None, reason=f"NO SPARK: {spark_needs.missing()}")
def test_what_the_watcher_predicts_is_what_switches_have_and_hosts_get(tmp_path):
    async def main():
        lake = Lake.at(str(tmp_path / "lake"))
        collecting = CollectingSettings(lake.url, sample=1.0, land_seconds=0.2)
        async with place(tmp_path / "service", RING, collecting=collecting) as here:
            controller = here.service.service.controller
            await subscribed(controller)
            publishers = {}
            for host, text in PUBLISHED.items():
                publishers[host] = here.start(host, PUBLISHER, "inband://", "any", text)
                assert await publishers[host].line() == f"{host}\n"
            draw = Random(11)
            rounds = [EventBatch.from_events(WEATHER, [random_event(draw) for _ in range(ROUND_EVENTS)]) for _ in "12"]
            await published(publishers, rounds[0])
            await asyncio.sleep(1.2)  # events of a later window close the windows before
            await published(publishers, rounds[1])
            await until(lambda: "weather" in lake.schemas(), LIMIT_SECONDS)
            await until(lambda: len(lake.events("weather")) == 2 * ROUND_EVENTS, LIMIT_SECONDS)
            await until(lambda: len(lake.subscriptions("weather")) == SUBSCRIPTIONS, LIMIT_SECONDS)
            await until(lambda: len(lake.advertisements("weather")) == len(PUBLISHED), LIMIT_SECONDS)

            told = await watched(lake, here.service)
            assert (told["outcome"], told["waste_at"]) == ("adopted", "hosts")
            (decision,) = Journal(lake, "weather").decisions()
            plan = controller.state.schemas["weather"].plan
            assert (plan.epoch, plan.members) == (decision.new_epoch, decision.members)
            assert decision.after.wasted < decision.before.wasted

            switches = RealTables(here.lab, IPV6)
            await asyncio.to_thread(switches.count)
            rules = {switch: len(table) for switch, table in switches.tables.items()}
            assert rules == decision.rules_by_switch
            assert all(rules[switch] <= limit for switch, limit in RING.limits.items())

            situation = situation_of(lake, "weather", decision.end)
            assert shortcomings(situation) == []
            time = {"start": decision.learned.start, "end": decision.learned.end, "draw": WatchSettings().draw}
            held_out = gather_here(lake, "weather", situation.filters, **time).judging
            sockets = HostSockets(here.lab, IPV6, SUBSCRIBING)
            try:
                got = await received(sockets, publishers, situation, plan, held_out)
            finally:
                sockets.close()
            wanted = sum(
                any(each.filter.matches(event) for each in situation.subscriptions if each.host == host)
                for host, event in got
            )
            assert (len(got), wanted) == (decision.after.deliveries, decision.after.wanted)
            assert 0 < wanted < len(got)

    asyncio.run(asyncio.wait_for(main(), 5 * LIMIT_SECONDS))

"""The three ways through the house are those that docs/architecture.md lists: of an event, of a request, of a plan."""

import asyncio
import random
import re
from pathlib import Path

import pytest

import pleroma
from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.pipeline.watch.plan_holder import ControllerPlanHolder
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.proposals import propose
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.routing import HostId, build
from pleroma.selection.traffic_summary import summarise_traffic
from pleroma.service import running
from pleroma.service.deployment import Deployment
from support.strategies import STOCK
from support.way_trace import WayTrace

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")

NETWORK = build("testbed")

NOW_AND_THEN = {
    "client/client.py",
    "client/links/keepalive.py",
    "client/session/attachment_keeper.py",
    "client/session/inbox.py",
    "client/session/lease.py",
    "client/session/receiver.py",
    "client/session/registration_keeper.py",
    "client/session/reports.py",
    "client/session/sampling.py",
    "client/session/subscribed_schemas.py",
    "client/session/subscription.py",
    "client/session/waste_attribution.py",
    "control/client_counters.py",
    "service/http/connections/http_server.py",
    "service/http/health/network_watch.py",
    "service/planes/embedded_plane.py",
    "service/http/models/leases.py",
    "service/http/models/statistics.py",
    "service/http/resources/leases.py",
    "service/http/resources/statistics.py",
    "service/lease_keeper.py",
    "service/loop_watch.py",
    "wire/socket_sessions.py",
}
"""What is done by clocks (leases, reports, samples, attachments, watch, connections): it may be in a trace or not."""


def listed(title):
    """The files that a section of the page names."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"`([a-z_/]+\.py)`", section)


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    trace = WayTrace()
    try:
        return asyncio.run(asyncio.wait_for(walked(trace, tmp_path_factory.mktemp("service")), 300))
    finally:
        trace.close()


async def walked(trace, folder):
    """The files of each way. What a client does now and then besides is not in every trace of the same work."""
    found = {}
    async with (
        running(folder, NETWORK, Deployment(port=0)) as service,
        pleroma.connect(service.url, token=service.token, host="h1") as sender,
        pleroma.connect(service.url, token=service.token, host="h8") as receiver,
    ):
        await sender.create_schema(STOCK)
        publisher = await sender.advertise("stock", "price > 0")
        async with await receiver.subscribe("stock", "price > 100") as subscription:

            async def event(_):
                publisher.publish({"ticker": "IBM", "price": 120.5, "volume": 900})
                await subscription.receive()

            async def request(number):
                await receiver.subscribe("stock", f"price > {number} and volume < 50")

            async def plan(number):
                await asyncio.to_thread(better_plan, service, 10 + number, *traffic)

            traffic = some_traffic()
            for name, work, times in (("an event", event, 6), ("a request", request, 4), ("a plan", plan, 3)):
                await work(0)  # imports and compiles what has not been used yet
                traces = []
                for number in range(1, times):
                    with trace.tracing() as files:
                        await work(number)
                    traces.append(files)
                found[name] = [file for file in traces[0] if all(file in files for files in traces)]
    return found


def some_traffic():
    chance = random.Random(7)
    texts = [f"price > {chance.randrange(400)} and volume < {chance.randrange(1, 90)}" for _ in range(30)]
    events = [
        STOCK.event(ticker="IBM", price=chance.uniform(1, 499), volume=chance.randrange(1, 99)) for _ in range(400)
    ]
    return [Filter.parse(STOCK, text) for text in texts], EventBatch.from_events(STOCK, events)


def better_plan(service, bits, wanted, seen):
    """As the replanner does it: look at the plan in force, learn a tree, and hand it over."""
    settings = WatchSettings(bits=bits, rules=50)
    with ControllerPlanHolder(service.url, service.token, "stock") as holder:
        in_force = holder.current()
        placed = tuple(PlacedFilter(HostId(f"h{1 + i % 8}"), each) for i, each in enumerate(wanted))
        situation = NetworkSituation(STOCK, placed, NETWORK)
        found = propose(in_force, summarise_traffic(seen, wanted, statistics=False), situation, settings)
        holder.put(found.index, found.members, in_force.epoch)


@pytest.mark.parametrize("way", ["an event", "a request", "a plan"])
def test_the_page_lists_the_files_of_every_way(ways, way):
    differing = set(listed(f"The way of {way}")) ^ set(ways[way])
    assert differing - NOW_AND_THEN == set()

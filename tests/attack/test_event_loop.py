"""Whatever is stored, the event loop goes on: large commands, restarts and snapshots take long, but not on the loop.

What counts is the processor time of the loop's thread between two ticks: how late a tick comes depends on who else uses
the machine. There are 10,000 rules on a switch, or 100,000 subscriptions; with PLEROMA_LONG=1 twice as many rules.
"""

import asyncio
import os
import shutil
import time
from contextlib import asynccontextmanager

import pytest

from pleroma.control import ChangePlan, RemovePrincipal
from pleroma.control.state.present_network import rewire_of
from pleroma.errors import LogError
from pleroma.index import GridIndex
from pleroma.routing import Presence, build
from pleroma.service import CollectingSettings, Deployment, running
from pleroma.service.planes.embedded_plane import over_embedded
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.workloads import Model
from support.many_registrations import write_many
from support.service.in_process import world
from support.stalls import MAX_BUSY_SECONDS, TICK_SECONDS, longest_stall
from support.waiting import until

LONG = os.environ.get("PLEROMA_LONG") == "1"
NARROW = Model(dimensions=3, low=0, high=1023, subscriptions=3_000 if LONG else 1_400, events=1, width=0.01)
"""Each switch has about eight rules for each of these subscriptions."""
LEAST_RULES = 10_000
MANY = Model(dimensions=8, low=0, high=1023, subscriptions=100_000, events=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A state folder with 100,000 subscriptions; only to be copied."""
    folder = tmp_path_factory.mktemp("many")
    assert write_many(folder, MANY) > MANY.subscriptions
    return folder


@pytest.fixture
def many(written, tmp_path):
    shutil.copytree(written, tmp_path / "state")
    return tmp_path / "state"


@asynccontextmanager
async def watched(what):
    """Fails if the event loop itself worked for too long in one go."""
    began = time.perf_counter()
    async with longest_stall() as stall:
        yield
        await asyncio.sleep(2 * TICK_SECONDS)
    seconds, longest, busiest = time.perf_counter() - began, 1000 * stall.seconds, 1000 * stall.busy_seconds
    print(f"{what}: {seconds:.2f} s, longest stall {longest:.0f} ms, busy for {busiest:.0f} ms")
    assert stall.busy_seconds < MAX_BUSY_SECONDS


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_a_plan_change_of_many_rules_does_not_keep_the_loop(tmp_path, method):
    write_many(tmp_path, NARROW)

    async def main():
        async with over_embedded(tmp_path, build("testbed"), None) as (controller, _):
            rules = max(map(len, controller.state.router.tables.values()))
            assert rules > LEAST_RULES
            (entry,) = controller.state.schemas.values()
            phases = ["prepared", "swapped", "settled"]
            change = asyncio.create_task(
                controller.plan_changes.change(ChangePlan(entry.name, GridIndex.regular(entry.schema, 24), method))
            )
            for phase in phases:
                async with watched(f"{method} with {rules} rules, {phase}"):
                    while controller._logged.state.plans.phase(entry.name) != phase:
                        await asyncio.sleep(TICK_SECONDS)
                    await controller.settled()
            await change
            assert entry.epoch == 2

    asyncio.run(main())


def test_a_change_of_the_network_with_many_rules_does_not_keep_the_loop(tmp_path):
    write_many(tmp_path, NARROW)

    async def main():
        topology = build("testbed")
        async with over_embedded(tmp_path, topology, None) as (controller, _):
            cut = Presence(down=frozenset({(topology.links[0].a, topology.links[0].a_port)}))
            before = controller.position
            for there in (cut, Presence()):
                async with watched("a link goes or comes back"):
                    await controller.rewire(rewire_of(there, {}, None))
                    await controller.confirmed()
            assert controller.position == before + 2

    asyncio.run(main())


def test_a_change_of_the_network_that_a_full_disk_keeps_from_the_log_does_not_keep_the_loop(tmp_path, monkeypatch):
    """Events find their way on what is there whatever the disk does, and the log is told later."""
    write_many(tmp_path, NARROW)

    def is_full(*_):
        raise LogError("no space left on device")

    async def main():
        topology = build("testbed")
        async with over_embedded(tmp_path, topology, None) as (controller, _):
            down = frozenset({(topology.links[0].a, topology.links[0].a_port)})
            before = controller.position
            with monkeypatch.context() as failing:
                failing.setattr(controller._logged._commit._log, "append", is_full)
                async with watched("a link goes, and the disk is full"):
                    await controller.rewire(rewire_of(Presence(down=down), {}, None))
                    await controller.confirmed()
                assert controller.state.there == rewire_of(Presence(down=down), {}, None)
            await controller.rewire(rewire_of(Presence(), {}, None))
            assert controller.position == before + 1

    asyncio.run(main())


def test_a_restart_with_many_subscriptions_does_not_keep_the_loop(many):
    """Other parts of the process, such as connections to switches, go on while the state is read."""

    async def main():
        async with watched("restart"):
            opened = over_embedded(many, build("testbed"), None)
            controller, _ = await opened.__aenter__()
        assert len(controller.state.registrations) > MANY.subscriptions
        async with watched("stop"):
            await opened.__aexit__(None, None, None)

    asyncio.run(main())


def test_a_snapshot_does_not_keep_the_loop(many):
    async def main():
        async with over_embedded(many, build("testbed"), None) as (controller, _), watched("snapshot"):
            await controller.save_snapshot()

    asyncio.run(main())


def test_a_service_that_collects_and_plans_for_many_subscriptions_does_not_keep_its_loop(many, tmp_path):
    """From its start to its first look for a better plan."""

    async def main():
        settings = ReplanningSettings(), CollectingSettings(str(tmp_path / "lake"))
        deployment = Deployment(port=0, replanning=settings[0], collecting=settings[1])
        async with watched("start of a service"):
            opened = running(many, build("testbed"), deployment)
            started = await opened.__aenter__()
        mirrors = started.service.planner._mirrors
        async with watched("the first look"):
            await until(lambda: any(not each.is_new for each in mirrors.values()), 30)
            await asyncio.sleep(1.0)  # all of it is handed over to the planning process
        await opened.__aexit__(None, None, None)

    asyncio.run(main())


def test_filters_of_a_thousand_boxes_do_not_keep_the_loop(tmp_path):
    """From their registration over changes of the plan, a restart and a list of them to their end."""
    large = [
        [{"price": {">=": i, "<": i + 0.5}, "volume": {"between": [i % 700, i % 700 + 10 + n]}} for i in range(1000)]
        for n in range(20 if LONG else 8)
    ]

    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            async with watched("registration"):
                for boxes in large:
                    body = {"schema": "stock", "boxes": boxes, "host": "h2"}
                    await api("POST", "/v1/subscriptions", 201, json=body)
            for method, index in (("lightweight", [0, 1] * 6), ("versioning", [1, 0] * 6), ("at_once", [0, 1] * 4)):
                async with watched(f"plan change, {method}"):
                    new = {"index": {"kind": "grid", "order": index}, "method": method}
                    await api("PUT", "/v1/schemas/stock/plan", 200, json=new)

    async def again():
        async with watched("restart"):
            opened = world(tmp_path)
            api = await opened.__aenter__()
        async with watched("list"):
            found = await api("GET", "/v1/subscriptions?limit=1000", 200)
        async with watched("withdrawal"):
            for each in found.json()["items"]:
                await api("DELETE", f"/v1/subscriptions/{each['id']}", 204)
        await opened.__aexit__(None, None, None)

    asyncio.run(main())
    asyncio.run(again())


def test_a_principal_with_many_registrations_goes_without_keeping_the_loop(tmp_path):
    write_many(tmp_path, NARROW)

    async def main():
        async with over_embedded(tmp_path, build("testbed"), None) as (controller, _):
            async with watched("removal of a principal"):
                await controller.submit(RemovePrincipal("ann"))
            assert not controller.state.registrations
            assert not any(map(len, controller.state.router.tables.values()))

    asyncio.run(main())

"""Whatever is stored, the event loop goes on: large commands, restarts and snapshots take long, but not on the loop.

With PLEROMA_LONG=1 there are as many rules and registrations as a large deployment has. What counts is the processor
time of the loop's thread between two ticks: how late a tick comes depends on who else uses the machine.
"""

import asyncio
import os
import time
from contextlib import asynccontextmanager

import pytest

from pleroma.control import ChangePlan, RemovePrincipal
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.service.planes.embedded_plane import over_embedded
from pleroma.workloads import Model
from support.many_registrations import write_many
from support.stalls import TICK_SECONDS, longest_stall

LONG = os.environ.get("PLEROMA_LONG") == "1"
NARROW = Model(dimensions=3, low=0, high=1023, subscriptions=3_000 if LONG else 400, events=1, width=0.01)
"""Each switch has about eight rules for each of these subscriptions."""
MANY = Model(dimensions=8, low=0, high=1023, subscriptions=100_000 if LONG else 10_000, events=1)
SHARE = 0.25
"""The most that the loop's thread may do in one go, as a share of the time that the work takes."""


@asynccontextmanager
async def watched(what):
    """Fails if the event loop itself did a large share of what was done meanwhile in one go."""
    began = time.perf_counter()
    async with longest_stall() as stall:
        yield
        await asyncio.sleep(2 * TICK_SECONDS)
    seconds, longest, busiest = time.perf_counter() - began, 1000 * stall.seconds, 1000 * stall.busy_seconds
    print(f"{what}: {seconds:.2f} s, longest stall {longest:.0f} ms, busy for {busiest:.0f} ms")
    assert stall.busy_seconds < SHARE * seconds


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_a_plan_change_of_many_rules_does_not_keep_the_loop(tmp_path, method):
    write_many(tmp_path, NARROW)

    async def main():
        async with over_embedded(tmp_path, build("testbed"), None) as (controller, _):
            rules = max(map(len, controller.state.router.tables.values()))
            assert rules > 6 * NARROW.subscriptions
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


def test_a_restart_with_many_subscriptions_does_not_keep_the_loop(tmp_path):
    """Other parts of the process, such as connections to switches, go on while the state is read."""
    standing = write_many(tmp_path, MANY)

    async def main():
        async with watched(f"restart with {standing} registrations"):
            opened = over_embedded(tmp_path, build("testbed"), None)
            controller, _ = await opened.__aenter__()
        assert len(controller.state.registrations) == standing
        await opened.__aexit__(None, None, None)

    asyncio.run(main())


def test_a_snapshot_does_not_keep_the_loop(tmp_path):
    write_many(tmp_path, MANY)

    async def main():
        async with over_embedded(tmp_path, build("testbed"), None) as (controller, _), watched("snapshot"):
            for _ in range(1 if LONG else 5):
                await controller.save_snapshot()

    asyncio.run(main())


def test_a_principal_with_many_registrations_goes_without_keeping_the_loop(tmp_path):
    write_many(tmp_path, NARROW)

    async def main():
        async with over_embedded(tmp_path, build("testbed"), None) as (controller, _):
            async with watched("removal of a principal"):
                await controller.submit(RemovePrincipal("ann"))
            assert not controller.state.registrations
            assert not any(map(len, controller.state.router.tables.values()))

    asyncio.run(main())

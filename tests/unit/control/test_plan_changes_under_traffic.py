"""Plans change again and again while everybody publishes: no event is lost, none comes twice."""

import asyncio
import os
import random
from contextlib import suppress

import pytest

from pleroma.control import AdoptPlan
from pleroma.control.state.tree_choice import TREE_CHOICES
from pleroma.control.transition.regrowth import MAX_AREA_CELLS
from pleroma.errors import LimitReached, PleromaError
from pleroma.index import TreeIndex
from pleroma.routing import build
from support.plan_change_traffic import PLANS, World, churn, tree, with_another_part

LONG = os.environ.get("PLEROMA_LONG") == "1"
CHANGES = 200 if LONG else 20
TESTBED = build("testbed")
FABRIC = build("fat-tree:4")


def ran(main):
    asyncio.run(asyncio.wait_for(main, 3600 if LONG else 240))


async def running(folder, seed, work, topology=TESTBED, trees="single"):
    world = World(topology, random.Random(seed), trees)
    clock = asyncio.create_task(world.pass_time())

    async def all_work():
        await world.populate(folder)
        await world.sleep(0.01)
        await work(world)
        world.silent = True
        await world.sleep(0.05)  # all that is under way arrives

    working = asyncio.create_task(all_work())
    try:
        await asyncio.wait([clock, working], return_when=asyncio.FIRST_COMPLETED)
        if clock.done():
            working.cancel()
            clock.result()
        await working
    finally:
        clock.cancel()
        with suppress(asyncio.CancelledError):
            await clock
        if world.is_controlled:
            await world.controller.close()
    return world


def index_of(world):
    return world.controller.state.schemas["space"].index


def others(world):
    now = index_of(world).to_json()
    return [plan for plan in PLANS if plan.to_json() != now]


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_many_changes_lose_and_double_nothing(tmp_path, method):
    async def work(world):
        going = True
        people = asyncio.create_task(churn(world, lambda: going))
        for _ in range(CHANGES // 2):
            await world.change(world.random.choice(others(world)), method)
            await world.sleep(world.random.uniform(0, 0.01))
        going = False
        await people

    async def main():
        world = await running(tmp_path, f"many {method}", work)
        assert world.account() == ([], [])
        assert world.refused == 0
        assert world.changes == CHANGES // 2
        assert len(world.network.deliveries) > 50 * CHANGES
        assert max(world.fullest.values()) == (1 if method == "lightweight" else 0)

    ran(main())


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_many_changes_of_parts_of_a_tree_lose_and_double_nothing(tmp_path, method):
    async def work(world):
        going = True
        people = asyncio.create_task(churn(world, lambda: going))
        await world.change(tree(world.random, 12, 5), method)
        prefix = world.controller.state.schemas["space"].prefix
        for _ in range(CHANGES // 2):
            await world.change(with_another_part(world.random, index_of(world)), method)
            await world.sleep(world.random.uniform(0, 0.01))
        assert world.controller.state.schemas["space"].prefix == prefix  # versions need no other one
        going = False
        await people

    async def main():
        world = await running(tmp_path, f"parts {method}", work)
        assert world.account() == ([], [])
        assert world.refused == 0
        assert world.controller.state.schemas["space"].epoch > CHANGES / 2
        assert len(world.network.deliveries) > 50 * CHANGES
        most = MAX_AREA_CELLS if method == "lightweight" else 0
        assert bool(most) <= max(world.fullest.values()) <= most

    ran(main())


def members_of(world):
    return world.controller.state.schemas["space"].members


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_many_changes_of_the_limit_of_dz_lose_and_double_nothing(tmp_path, method):
    """Alone, with a part of a tree, and with another index; people come and go."""

    async def work(world):
        going = True
        people = asyncio.create_task(churn(world, lambda: going))
        for number in range(CHANGES):
            now = index_of(world)
            if number % 7 == 0:
                now = tree(world.random, 12, 5)
            elif number % 2 and isinstance(now, TreeIndex):
                now = with_another_part(world.random, now)
            elif number % 5 == 4:
                now = world.random.choice(others(world))
            members = world.random.choice([each for each in (1, 2, 5, 16, 300) if each != members_of(world)])
            await world.change(now, method, members)
            assert members_of(world) == members
            await world.sleep(world.random.uniform(0, 0.01))
        going = False
        await people

    async def main():
        world = await running(tmp_path, f"limits {method}", work)
        assert world.account() == ([], [])
        assert world.refused == 0
        assert world.changes == CHANGES
        assert len(world.network.deliveries) > 50 * CHANGES

    ran(main())


@pytest.mark.parametrize("limit", [None, 60])
@pytest.mark.parametrize("trees", ["forest", "balanced"])
def test_on_several_trees_all_kinds_of_changes_lose_and_double_nothing(tmp_path, trees, limit):
    """Both methods, moves to trees that somebody chose or the policy deals out, and other policies meanwhile."""

    async def work(world):
        going = True
        people = asyncio.create_task(churn(world, lambda: going))
        used = set()
        for number in range(CHANGES):
            index = world.random.choice([index_of(world), *others(world)])
            if number % 4 == 0:
                await world.change(index, "lightweight")
            elif number % 4 == 1:
                await world.change(index, "versioning")
            elif number % 4 == 2:
                with suppress(LimitReached):  # tables have no room for so many turns
                    await world.change(index, "versioning", trees=world.any_trees())
            else:
                choice = world.random.choice(TREE_CHOICES)
                await world.controller.choose_trees(choice)
                assert world.controller.schemas_on_other_trees == []
            assert all(len(table) <= (limit or len(table)) for table in world.controller.state.router.tables.values())
            if not world.busy:  # a switch that takes operations one by one may be between two of them
                assert all(table.size <= (limit or table.size) for table in world.network.tables.values())
            used |= {family.tree for family in world.controller.state.router.families}
            await world.sleep(world.random.uniform(0, 0.01))
        going = False
        await people
        assert len(used) > 4

    async def main():
        world = await running(tmp_path, f"{trees} {limit}", work, FABRIC.with_limit(limit), trees)
        assert world.account() == ([], [])
        assert world.refused == 0
        assert world.changes > CHANGES / 2
        assert len(world.network.deliveries) > 50 * CHANGES

    ran(main())


def test_a_controller_that_dies_at_any_moment_comes_back_to_its_trees(tmp_path):
    async def work(world):
        for number in range(CHANGES // 2):
            trees = world.any_trees() if number % 3 else None
            index = world.random.choice(others(world))
            method = "lightweight" if number % 3 == 0 else "versioning"
            task = asyncio.create_task(world.change(index, method, trees=trees))
            await world.sleep(world.random.choice((0.0005, 0.002, world.random.uniform(0, 0.08))))
            if number % 3 == 0:
                with suppress(PleromaError):
                    await world.controller.save_snapshot()
            state = world.controller.state
            await world.kill()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await world.start()
            assert world.controller.state.router.families == state.router.families
            if number % 2 or number == CHANGES // 2 - 1:
                await world.controller.plan_changes.finished()

    async def main():
        world = await running(tmp_path, "deaths on trees", work, FABRIC, "balanced")
        assert world.account() == ([], [])
        assert world.refused == 0
        assert world.deaths == CHANGES // 2

    ran(main())


def test_a_controller_that_dies_at_any_moment_loses_and_doubles_nothing(tmp_path):
    async def work(world):
        for number in range(CHANGES):
            method = world.random.choice(("lightweight", "versioning"))
            now = index_of(world)
            if isinstance(now, TreeIndex) and number % 6:
                index = with_another_part(world.random, now)
            else:
                index = world.random.choice([*others(world), *(tree(world.random, 12, 5) for _ in range(6))])
            members = world.random.choice((None, 3, 40))
            task = asyncio.create_task(world.change(index, method, members))
            await world.sleep(world.random.choice((0.0005, 0.002, world.random.uniform(0, 0.08))))
            if number % 3 == 0:
                with suppress(PleromaError):
                    await world.controller.save_snapshot()
            await world.kill()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await world.sleep(world.random.uniform(0, 0.01))
            await world.start()
            if number % 2 or number == CHANGES - 1:  # sometimes it dies again before it is done
                await world.controller.plan_changes.finished()

    async def main():
        world = await running(tmp_path, "deaths", work)
        assert world.account() == ([], [])
        assert world.refused == 0
        assert world.deaths == CHANGES
        assert world.controller.state.schemas["space"].epoch > CHANGES / 2

    ran(main())


def test_a_change_at_once_does_lose_events(tmp_path):
    async def work(world):
        for index in PLANS[:3]:
            await world.controller.submit(AdoptPlan("space", index))
            await world.sleep(0.03)

    async def main():
        world = await running(tmp_path, "at once", work)
        lost, _ = world.account()
        assert lost or world.refused

    ran(main())

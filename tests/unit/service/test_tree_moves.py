"""At its start a service moves the schemas that are on other trees than chosen; nobody waits for that."""

import asyncio

import pytest

from pleroma.control import ChangePlan, Controller, CreateSchema
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.service import tree_moves
from pleroma.service.tree_moves import moving_to
from support.control_cases import ANN, SMALL, TRAFFIC, WEATHER, Network, advertise
from support.waiting import run, until

RING = build("ring:4")
SCHEMAS = (CreateSchema(WEATHER), CreateSchema(TRAFFIC))
OTHER_INDEX = GridIndex.regular(WEATHER, 3, ["wind"])


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(tree_moves, "RETRY_SECONDS", 0.01)


async def opened(folder, *commands):
    controller = await Controller.open(folder, RING, Network(), SMALL)
    for command in commands:
        await controller.submit(command)
    return controller


def trees_of(controller):
    return controller.state.trees, *(entry.trees for entry in controller.state.schemas.values())


def background():
    return [task for task in asyncio.all_tasks() if task.get_name() == "trees"]


@pytest.mark.parametrize("trees", [None, "single"])
def test_where_all_is_as_it_should_be_nothing_is_done(tmp_path, trees):
    async def main():
        async with await opened(tmp_path, *SCHEMAS, ANN, advertise("ann", "true")) as controller:
            position = controller.position
            async with moving_to(controller, trees):
                assert background() == []
            assert controller.position == position

    run(main, 120)  # covers may have to be compiled


def test_where_nothing_is_registered_all_schemas_are_there_at_once(tmp_path):
    async def main():
        async with await opened(tmp_path, *SCHEMAS) as controller, moving_to(controller, "forest"):
            assert trees_of(controller) == ("forest", "forest", "forest")
            assert background() == []

    run(main, 120)  # covers may have to be compiled


def test_schemas_move_in_the_background_one_after_the_other(tmp_path):
    async def main():
        async with await opened(tmp_path, *SCHEMAS, ANN, advertise("ann", "true")) as controller:
            async with moving_to(controller, "balanced"):
                assert trees_of(controller) == ("balanced", "single", "single")
                await until(lambda: trees_of(controller) == ("balanced",) * 3)
                await until(lambda: background() == [])
            assert [len(entry.plans) for entry in controller.state.schemas.values()] == [2, 2]

    run(main, 120)  # covers may have to be compiled


def test_a_move_waits_until_another_change_of_plans_is_over(tmp_path):
    async def main():
        async with await opened(tmp_path, *SCHEMAS, ANN, advertise("ann", "true")) as controller:
            await controller._logged.submit(ChangePlan("weather", OTHER_INDEX, "lightweight"))
            before = controller.plan_changes.finished
            controller.plan_changes.finished = lambda: asyncio.sleep(0)  # so that it is refused
            async with moving_to(controller, "forest"):
                await asyncio.sleep(0.05)
                assert len(background()) == 1
                controller.plan_changes.finished = before
                await until(lambda: trees_of(controller) == ("forest",) * 3)

    run(main, 120)  # covers may have to be compiled


def test_a_service_that_ends_before_goes_on_with_it_at_its_next_start(tmp_path):
    async def main():
        async with await opened(tmp_path, *SCHEMAS, ANN, advertise("ann", "true")) as controller:
            async with moving_to(controller, "forest"):
                assert len(background()) == 1
            assert background() == []
        async with await opened(tmp_path) as controller, moving_to(controller, None):
            await until(lambda: trees_of(controller) == ("forest",) * 3)

    run(main, 120)  # covers may have to be compiled

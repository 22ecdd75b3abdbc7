"""The limit of dz per registration is the plan's: commands, snapshots and logs of earlier versions that have none."""

import asyncio
import json
from dataclasses import replace

import pytest

from pleroma.control import (
    AdoptPlan,
    Advance,
    ChangePlan,
    CommandRefused,
    Controller,
    ControlState,
    CreateSchema,
    Done,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import PlanError
from pleroma.index import GridIndex
from pleroma.routing import DetourOp
from support.control_cases import (
    ANN,
    LINE,
    SMALL,
    TRAFFIC,
    WEATHER,
    Network,
    advertise,
    begin,
    fresh_tables,
    peopled,
    state_after,
    subscribe,
)
from support.plan_change_cases import selective

INDEX = GridIndex.regular(WEATHER, 7)
CROSS = "temperature == 5 or wind == 7"
LIVELY = (advertise("ben", "true"), subscribe("ben", CROSS))
METHODS = pytest.mark.parametrize("method", ["lightweight", "versioning"])


def region_of(state, kind="subscription"):
    (found,) = (each.region for each in state.registrations.values() if each.kind == kind)
    return found


def after(state, *commands):
    results = [state.apply(100 + n, command) for n, command in enumerate(commands)]
    assert all(isinstance(each, Done) for each in results), results
    return results


class TestFirstPlans:
    def test_a_first_plan_has_the_limit_of_the_settings_or_its_own(self):
        state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC, members=300))
        assert [entry.members for entry in state.schemas.values()] == [SMALL.max_members, 300]

    @pytest.mark.parametrize("members", [0, 4097, True, "8"])
    def test_what_is_no_limit_makes_no_schema(self, members):
        state = ControlState(LINE, SMALL)
        result = state.apply(1, CreateSchema(WEATHER, members=members))
        assert isinstance(result, CommandRefused)
        assert (type(result.error), result.error.field) == (PlanError, "members")
        assert not state.schemas


class TestAdoption:
    def test_regions_have_as_many_dz_as_the_plan_allows(self):
        sizes = []
        for members in (1, 3, None, 40):
            state = peopled(*LIVELY, AdoptPlan("weather", INDEX, members=members))
            assert state.schemas["weather"].members == (members or SMALL.max_members)
            assert state.router.tables == fresh_tables(state)
            sizes.append(len(region_of(state)))
        assert sizes[:3] == [1, 3, 4]
        assert sizes[3] == len(INDEX.cover(region_filter(), max_members=40)) > 4

    def test_without_a_limit_that_of_the_plan_in_force_stays(self):
        state = peopled(AdoptPlan("weather", INDEX, members=40), AdoptPlan("weather", GridIndex.regular(WEATHER, 5)))
        assert [plan.members for plan in state.schemas["weather"].plans] == [SMALL.max_members, 40, 40]

    def test_a_quiet_plan_that_is_opened_keeps_its_limit(self):
        quiet = selective(WEATHER, {0: (0.0, 4.0), 1: (0.0, 4.0)}, quiet=True)
        state = peopled(AdoptPlan("weather", quiet, members=9), subscribe("ben", "temperature > 9"))
        assert [plan.members for plan in state.schemas["weather"].plans] == [SMALL.max_members, 9, 9]

    @pytest.mark.parametrize("members", [0, 4097, True, "8"])
    @pytest.mark.parametrize("kind", [AdoptPlan, ChangePlan])
    def test_what_is_no_limit_changes_nothing(self, kind, members):
        state = peopled(*LIVELY)
        before = snapshot(state, KeptAnswers())
        result = state.apply(100, kind("weather", INDEX, members=members))
        assert (type(result.error), result.error.field) == (PlanError, "members")
        assert snapshot(state, KeptAnswers()) == before


def region_filter():
    return subscribe("ben", CROSS).parsed(WEATHER)


class TestAnotherLimitAlone:
    @METHODS
    def test_it_takes_one_step_and_no_detour(self, method):
        state = peopled(*LIVELY)
        (done,) = after(state, ChangePlan("weather", INDEX, method, members=2))
        assert (done.value["epoch"], state.plans.change, state.plans.phase("weather")) == (2, None, "settled")
        assert not any(isinstance(op, DetourOp) for op in done.switch_ops)
        assert len(region_of(state)) == 2
        assert state.router.tables == fresh_tables(state)

    @METHODS
    def test_it_needs_neither_room_for_a_detour_nor_a_spare_prefix(self, method):
        settings = replace(SMALL, schema_bits=0)
        state = state_after(CreateSchema(WEATHER), ANN, topology=LINE.with_limit(1), settings=settings)
        (done,) = after(state, ChangePlan("weather", INDEX, method, members=2))
        assert done.value["epoch"] == 2

    def test_the_limit_in_force_is_no_change(self):
        state = peopled(*LIVELY)
        (done,) = after(state, ChangePlan("weather", INDEX, members=SMALL.max_members))
        assert done.value == {"schema": "weather", "epoch": 1, "unchanged": True}


class TestEarlierVersions:
    def test_what_is_not_given_is_not_written(self):
        for command in (CreateSchema(WEATHER), AdoptPlan("weather", INDEX), ChangePlan("weather", INDEX)):
            assert "members" not in command.to_json()
            assert command_from_json(command.to_json()).to_json() == command.to_json()

    def test_what_is_given_is_read_again(self):
        for command in (
            CreateSchema(WEATHER, None, 5),
            AdoptPlan("weather", INDEX, members=5),
            ChangePlan("weather", INDEX, after=3, members=5),
        ):
            again = command_from_json(json.loads(json.dumps(command.to_json())))
            assert (again.members, again.to_json()) == (5, command.to_json())

    @METHODS
    @pytest.mark.parametrize("steps", [0, 1, 2])
    def test_a_snapshot_whose_plans_have_no_limit_has_that_of_its_settings(self, method, steps):
        changing = [ChangePlan("weather", GridIndex.regular(WEATHER, 4, ["wind"]), method), Advance("weather", "swap")]
        state = peopled(*LIVELY)
        after(state, *changing[:steps])
        taken = snapshot(state, KeptAnswers())
        head, _, rest = taken.partition(b"\n")
        data = json.loads(head)
        for schema in data["schemas"]:
            schema["plans"] = [[epoch, index] for epoch, index, _ in schema["plans"]]
        if steps:
            del data["changing"]["members"]
        old = json.dumps(data).encode() + b"\n" + rest
        again, _ = restore(old, LINE, replace(SMALL, max_members=7))
        assert snapshot(again, KeptAnswers()) == taken
        assert again.plans.change == state.plans.change

    def test_a_log_keeps_the_limit_that_it_began_with(self):
        """It may be opened with another one, which is for schemas that are created with it."""
        begun = begin(ControlState(LINE, SMALL))
        state = ControlState(LINE, replace(SMALL, max_members=9))
        after(state, begun, CreateSchema(WEATHER), CreateSchema(TRAFFIC, members=9))
        assert [entry.members for entry in state.schemas.values()] == [SMALL.max_members, 9]
        again, _ = restore(snapshot(state, KeptAnswers()), LINE, SMALL)
        assert snapshot(again, KeptAnswers()) == snapshot(state, KeptAnswers())

    def test_a_folder_is_opened_with_another_limit_for_first_plans(self, tmp_path):
        async def scenario():
            for members, with_snapshot in ((4, False), (9, True), (6, True)):
                settings = replace(SMALL, max_members=members)
                controller = await Controller.open(tmp_path, LINE, Network(), settings)
                if members == 4:
                    await controller.submit(CreateSchema(WEATHER))
                assert controller.state.schemas["weather"].members == 4
                await controller._logged.close(with_snapshot=with_snapshot)
                await controller.close()

        asyncio.run(scenario())

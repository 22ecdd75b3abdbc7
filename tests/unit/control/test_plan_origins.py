"""Where a plan came from is in the log, in snapshots and in the state, for as long as the plan is kept."""

import json

import pytest

from pleroma.control import AdoptPlan, Advance, ChangePlan, Done, command_from_json
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.control.state.records import KEPT_PLANS
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.index import GridIndex
from support.control_cases import LINE, SMALL, WEATHER, advertise, peopled, subscribe

INDEX = GridIndex.regular(WEATHER, 4, ["wind"])
ORIGIN = PlanOrigin("2026-11-16T20:15:00+00:00", "ann", {"waste_at_hosts": 0.25, "rules": 12})
STEPS = (Advance("weather", "swap"), Advance("weather", "clear"))


def standing():
    return peopled(advertise("ben", "true"), subscribe("ben", "temperature == 5 or wind == 7"))


def apply(state, *commands):
    for number, command in enumerate(commands):
        result = state.apply(100 + number, command)
        assert isinstance(result, Done), result


@pytest.mark.parametrize(
    "command",
    [
        AdoptPlan("weather", INDEX, None, 9, ORIGIN),
        ChangePlan("weather", INDEX, "versioning", origin=ORIGIN),
        ChangePlan("weather", INDEX, origin=PlanOrigin("2026-11-16T20:15:00+00:00", None)),
        AdoptPlan("weather", INDEX),
    ],
)
def test_a_command_is_read_as_it_was_written(command):
    assert command_from_json(json.loads(json.dumps(command.to_json()))) == command


@pytest.mark.parametrize(
    "commands",
    [
        [AdoptPlan("weather", INDEX, origin=ORIGIN)],
        [ChangePlan("weather", INDEX, "lightweight", origin=ORIGIN), *STEPS],
        [ChangePlan("weather", INDEX, "versioning", origin=ORIGIN), *STEPS],
    ],
    ids=["at once", "lightweight", "versioning"],
)
def test_every_way_to_a_plan_keeps_where_it_came_from(commands):
    state = standing()
    apply(state, *commands)
    assert state.schemas["weather"].origins == {2: ORIGIN}


def test_a_plan_that_is_only_another_limit_has_an_origin_too():
    state = standing()
    apply(state, ChangePlan("weather", state.schemas["weather"].index, members=3, origin=ORIGIN))
    assert state.schemas["weather"].origins == {2: ORIGIN}


@pytest.mark.parametrize("steps", range(3))
def test_a_snapshot_has_it_also_in_the_midst_of_a_change(steps):
    state = standing()
    apply(state, ChangePlan("weather", INDEX, "lightweight", origin=ORIGIN), *STEPS[:steps])
    read, _ = restore(snapshot(state, KeptAnswers()), LINE, SMALL)
    apply(read, *STEPS[steps:])
    assert read.schemas["weather"].origins == {2: ORIGIN}


def test_a_snapshot_is_not_changed_by_what_comes_after_it():
    state = standing()
    apply(state, AdoptPlan("weather", INDEX, origin=ORIGIN))
    written = snapshot(state, KeptAnswers())
    apply(state, AdoptPlan("weather", GridIndex.regular(WEATHER, 5), origin=ORIGIN))
    read, _ = restore(written, LINE, SMALL)
    assert read.schemas["weather"].origins == {2: ORIGIN}


def test_with_a_plan_that_is_forgotten_goes_where_it_came_from():
    state = standing()
    for number in range(KEPT_PLANS + 3):
        apply(state, AdoptPlan("weather", GridIndex.regular(WEATHER, 3 + number % 2), origin=ORIGIN))
    entry = state.schemas["weather"]
    assert list(entry.origins) == [plan.epoch for plan in entry.plans]
    assert len(entry.origins) == KEPT_PLANS

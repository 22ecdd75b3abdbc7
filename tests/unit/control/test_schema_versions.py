"""A schema goes over to a later version while registrations stand: nothing that was wanted is missing in any rule."""

import json
from dataclasses import replace

import pytest

from pleroma.content import Category, Integer, Schema
from pleroma.content.schema_versions import lifted
from pleroma.control import (
    AdoptPlan,
    ChangePlan,
    CommandRefused,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    Done,
    ExtendSchema,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import written
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.control.transition.schema_plans import MAX_VERSIONS
from pleroma.errors import LimitReached, PlanChanging, SchemaError, UnknownName
from pleroma.index import GridIndex
from support.control_cases import (
    ANN,
    DIGEST,
    LINE,
    SMALL,
    WEATHER,
    advertise,
    fresh_tables,
    peopled,
    state_after,
    subscribe,
)

TEMPERATURE, WIND = WEATHER.attributes
HOT = Schema("weather", (Integer("temperature", False, -10, 63), WIND))
SUNNY = Schema("weather", (*HOT.attributes, Category("sky", True, ("blue", "grey"))))


def done(state, command, position=90):
    result = state.apply(position, command)
    assert isinstance(result, Done), result
    return result


def refusal(state, command):
    before = snapshot(state, KeptAnswers())
    result = state.apply(90, command)
    assert isinstance(result, CommandRefused), result
    assert snapshot(state, KeptAnswers()) == before
    return result.error


def standing():
    wanted = ("temperature < 4", "temperature > 12 and wind = 1", "wind between 2 and 5", "true")
    return peopled(advertise("ann", "true"), *(subscribe("ann", each) for each in wanted))


def test_registrations_stand_and_reach_to_the_new_ends_of_domains():
    state = standing()
    answer = done(state, ExtendSchema(HOT)).value
    assert answer == {"schema": "weather", "epoch": 2, "version": 2, "withdrawn": []}
    entry = state.schemas["weather"]
    assert (entry.schema, entry.earlier, entry.epoch) == (HOT, (WEATHER,), 2)
    told = [each.text for each in state.registrations.values()]
    assert told == ["true", "temperature <= 3", "temperature >= 13 and wind == 1", "wind between 2 and 5", "true"]
    hottest = HOT.event(temperature=63, wind=1)
    assert [each.filter.matches(hottest) for each in state.registrations.values()] == [True, False, True, False, True]
    assert state.router.tables == fresh_tables(state)
    done(state, ExtendSchema(SUNNY), 91)
    assert state.schemas["weather"].versions == (WEATHER, HOT, SUNNY)
    assert state.router.tables == fresh_tables(state)


def test_every_event_of_the_version_before_keeps_its_dz_and_its_way():
    state = standing()
    entry = state.schemas["weather"]
    index = entry.index
    regions = {each.id: each.region for each in state.registrations.values()}
    done(state, ExtendSchema(SUNNY))
    events = [WEATHER.event(temperature=t, wind=w) for t in range(16) for w in range(8)]
    for event in events:
        same = lifted(event, SUNNY)
        assert entry.index.dzs(same) == index.dzs(event)
        dz = entry.prefix.then(index.dz(event))
        for each in state.registrations.values():
            if each.filter.matches(same):
                assert any(member.covers(dz) for member in each.region)
                assert any(member.covers(dz) for member in regions[each.id])


def test_the_version_in_force_is_no_change_and_an_earlier_one_is_refused():
    state = standing()
    done(state, ExtendSchema(HOT))
    before = state.schemas["weather"].epoch
    again = done(state, ExtendSchema(HOT))
    assert (again.value["unchanged"], again.flows, again.value["epoch"]) == (True, [], before)
    error = refusal(state, ExtendSchema(WEATHER))
    assert isinstance(error, SchemaError)
    assert "is version 1, and version 2 is in force" in str(error)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ((replace(TEMPERATURE, high=14), WIND), "the domain of temperature, [0, 15], can become wider"),
        ((TEMPERATURE,), "wind has to stay where it is"),
        ((WIND, TEMPERATURE), "temperature has to stay where it is"),
        ((TEMPERATURE, WIND, Integer("sun", False, 0, 1)), "sun is new, and has to be optional"),
        ((replace(TEMPERATURE, optional=True), WIND), "temperature is required, and has to stay so"),
        ((Category("temperature", False, ("hot",)), WIND), "temperature is integer, and cannot become category"),
    ],
)
def test_what_is_no_later_version_is_refused_and_it_is_said_why(attributes, why):
    error = refusal(standing(), ExtendSchema(Schema("weather", attributes)))
    assert isinstance(error, SchemaError)
    assert why in str(error)


def test_other_reasons_to_refuse():
    state = standing()
    assert isinstance(refusal(state, ExtendSchema(replace(HOT, name="whether"))), UnknownName)
    assert "encrypted" in str(refusal(state, ExtendSchema(replace(HOT, encrypted=True))))
    done(state, ChangePlan("weather", GridIndex.regular(WEATHER, 4), "lightweight", whole=True))
    assert isinstance(refusal(state, ExtendSchema(HOT)), PlanChanging)
    state = standing()
    for number in range(1, MAX_VERSIONS):
        done(state, ExtendSchema(Schema("weather", (replace(TEMPERATURE, high=15 + number), WIND))))
    last = Schema("weather", (replace(TEMPERATURE, high=99), WIND))
    assert isinstance(refusal(state, ExtendSchema(last)), LimitReached)


ZOE = CreatePrincipal("zoe", "subscriber", DIGEST, read={"weather": "temperature <= 15"})
"""She may read all of the first version, and not all of the next."""


def test_what_rights_do_not_allow_on_the_wider_domain_goes():
    state = state_after(CreateSchema(WEATHER), ANN, ZOE, advertise("ann", "true"))
    gone = done(state, subscribe("zoe", "wind = 1"), 50).value["id"]
    stays = done(state, subscribe("zoe", "temperature < 9"), 51).value["id"]
    assert done(state, ExtendSchema(HOT)).value["withdrawn"] == [gone]
    assert (gone in state.registrations, stays in state.registrations) == (False, True)
    assert state.router.tables == fresh_tables(state)


def test_earlier_plans_can_be_had_back_and_plans_of_the_version_before_are_refused():
    state = standing()
    done(state, AdoptPlan("weather", GridIndex.regular(WEATHER, 4)))
    done(state, ExtendSchema(SUNNY))
    entry = state.schemas["weather"]
    assert [plan.epoch for plan in entry.plans] == [1, 2, 3]
    assert all(plan.schema == SUNNY for plan in entry.plans)
    done(state, AdoptPlan("weather", entry.plans[0].index))
    assert "of another schema" in str(refusal(state, AdoptPlan("weather", GridIndex.regular(WEATHER, 5))))
    done(state, AdoptPlan("weather", GridIndex.regular(SUNNY, 7)))
    assert state.router.tables == fresh_tables(state)


def test_a_log_and_a_snapshot_say_the_same_after_versions():
    first, second = subscribe("ann", "temperature > 3"), subscribe("ann", "temperature > 30", schema=HOT)
    commands = [CreateSchema(WEATHER), ANN, first, ExtendSchema(HOT), second, ExtendSchema(SUNNY)]
    state = state_after(*commands)
    again = ControlState(LINE, SMALL)
    for position, command in enumerate(commands, 1):
        assert isinstance(again.apply(position, command_from_json(json.loads(written(command)))), Done)
    taken = snapshot(state, KeptAnswers())
    assert snapshot(again, KeptAnswers()) == taken
    restored, _ = restore(taken, LINE, SMALL)
    assert snapshot(restored, KeptAnswers()) == taken
    assert restored.schemas["weather"].versions == (WEATHER, HOT, SUNNY)
    assert restored.router.tables == state.router.tables == fresh_tables(state)


def test_a_request_that_was_checked_before_the_version_came_is_checked_again():
    state = state_after(CreateSchema(WEATHER), ZOE)
    asked = subscribe("zoe", "wind = 1")
    prepared = replace(asked, known=asked.parsed(WEATHER), within="temperature <= 15")
    assert state.check(prepared) is None
    done(state, ExtendSchema(HOT))
    assert "zoe may read only temperature <= 15" in str(refusal(state, prepared))

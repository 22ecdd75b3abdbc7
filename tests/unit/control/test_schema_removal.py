"""A schema that is not in use can be removed, and nothing of it is mistaken for anything of a later one."""

import asyncio
import json
from dataclasses import replace

import pytest

from pleroma.control import (
    ChangePlan,
    CommandRefused,
    Controller,
    ControlState,
    CreateGroup,
    CreatePrincipal,
    CreateSchema,
    Done,
    RemoveSchema,
    Withdraw,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import Advance, written
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import AlreadyThere, LimitReached, NotInstalled, PlanChanging, UnknownName
from pleroma.index import GridIndex
from support.control_cases import (
    ANN,
    DIGEST,
    LINE,
    SMALL,
    TRAFFIC,
    WEATHER,
    Network,
    advertise,
    peopled,
    state_after,
    subscribe,
)

OTHER = replace(TRAFFIC, name="other")
WHOLE_CHANGE = ChangePlan("weather", GridIndex.regular(WEATHER, 4), "versioning", whole=True)


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


def test_the_name_and_the_share_of_the_addresses_are_free_again_and_the_number_is_not():
    state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC))
    first = state.schemas["weather"]
    assert done(state, RemoveSchema("weather")).value == {"schema": "weather", "principals": []}
    assert list(state.schemas) == ["traffic"]
    done(state, CreateSchema(OTHER))
    done(state, CreateSchema(WEATHER))
    assert state.schemas["other"].prefix == first.prefix
    assert [entry.number for entry in state.schemas.values()] == [1, 2, 3]
    assert len({entry.prefix for entry in state.schemas.values()}) == 3


def test_a_schema_of_the_same_name_has_later_plans():
    state = state_after(CreateSchema(WEATHER), WHOLE_CHANGE, Advance("weather", "swap"), Advance("weather", "clear"))
    last = state.schemas["weather"].epoch
    done(state, RemoveSchema("weather"))
    done(state, CreateSchema(WEATHER))
    assert state.schemas["weather"].epoch == last + 1 == 3


def test_a_schema_in_use_stays_and_it_is_said_by_whom():
    state = peopled(*(subscribe("ben", f"wind < {n}") for n in range(1, 6)), advertise("ann", "true"))
    error = refusal(state, RemoveSchema("weather"))
    assert isinstance(error, AlreadyThere)
    assert "6 registrations of weather stand (s7 of ben at h3, s8 of ben at h3, s9 of ben at h3, ...)" in str(error)
    for number in range(7, 12):
        done(state, Withdraw(f"s{number}", "ben"))
    assert "1 registrations of weather stand (a12 of ann at h1)" in str(refusal(state, RemoveSchema("weather")))
    done(state, RemoveSchema("traffic"))
    done(state, Withdraw("a12", "ann"))
    done(state, RemoveSchema("weather"))


def test_a_schema_whose_plan_changes_stays_until_the_change_is_over():
    state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC), WHOLE_CHANGE)
    assert isinstance(refusal(state, RemoveSchema("weather")), PlanChanging)
    done(state, Advance("weather", "swap"))
    assert isinstance(refusal(state, RemoveSchema("weather")), PlanChanging)
    done(state, RemoveSchema("traffic"))
    done(state, Advance("weather", "clear"))
    done(state, RemoveSchema("weather"))


def test_a_schema_that_is_not_there_is_named():
    assert isinstance(refusal(state_after(CreateSchema(WEATHER)), RemoveSchema("wether")), UnknownName)


def test_rights_that_name_the_schema_go_with_it_and_others_stay():
    state = peopled()
    assert done(state, RemoveSchema("weather")).value["principals"] == ["pat", "sue"]
    assert done(state, RemoveSchema("traffic")).value["principals"] == ["ben"]
    assert [dict(state.principals[name].rights.publish) for name in ("pat", "ben")] == [{}, {"*": "true"}]
    assert [dict(state.principals[name].rights.read) for name in ("sue", "ben")] == [{}, {"*": "true"}]
    assert state.principals.with_digest(DIGEST) is not None


def test_rights_of_groups_that_name_the_schema_go_with_it_from_all_members():
    rights = {"weather": "true", "traffic": "true"}
    joe = CreatePrincipal("joe", "both", DIGEST, groups=("all",))
    state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC), CreateGroup("all", rights, rights), joe)
    assert done(state, RemoveSchema("weather")).value["principals"] == []
    assert state.people.groups["all"].rights.read == {"traffic": "true"}
    done(state, CreateSchema(WEATHER))
    assert "may read nothing of this schema" in str(refusal(state, subscribe("joe", "true")))
    done(state, subscribe("joe", "true", schema=TRAFFIC))


def test_the_right_to_a_removed_schema_is_none_to_a_later_one_of_its_name():
    state = state_after(CreateSchema(WEATHER), CreatePrincipal("sue", "subscriber", DIGEST, read={"weather": "true"}))
    done(state, RemoveSchema("weather"))
    done(state, CreateSchema(WEATHER))
    assert "may read nothing of this schema" in str(refusal(state, subscribe("sue", "true")))


def test_no_schema_gets_a_prefix_that_another_is_using_for_its_next_version():
    state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC), CreateSchema(OTHER))
    done(state, RemoveSchema("traffic"))
    done(state, RemoveSchema("other"))
    done(state, WHOLE_CHANGE)
    taken = {state.schemas["weather"].prefix, state.plans.change.prefix}
    assert len(taken) == 2
    done(state, CreateSchema(TRAFFIC))
    done(state, CreateSchema(OTHER))
    assert not taken & {state.schemas[name].prefix for name in ("traffic", "other")}
    assert isinstance(refusal(state, CreateSchema(replace(OTHER, name="more"))), LimitReached)


def test_a_version_needs_the_prefix_of_no_other_schema():
    names = [replace(OTHER, name=name) for name in "abc"]
    state = state_after(*map(CreateSchema, (WEATHER, *names)))
    assert isinstance(refusal(state, WHOLE_CHANGE), LimitReached)
    done(state, RemoveSchema("c"))
    done(state, WHOLE_CHANGE)


def test_numbers_are_used_up_some_day():
    state = state_after(CreateSchema(WEATHER))
    state.plans.next_number = 2**16
    assert "numbers for no more" in str(refusal(state, CreateSchema(TRAFFIC)))


def test_a_log_and_a_snapshot_say_the_same_after_removals():
    commands = [CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, RemoveSchema("weather"), CreateSchema(OTHER)]
    state = state_after(*commands)
    again = ControlState(LINE, SMALL)
    for position, command in enumerate(commands, 1):
        text = written(command)
        assert isinstance(again.apply(position, command_from_json(json.loads(text))), Done)
    taken = snapshot(state, KeptAnswers())
    assert snapshot(again, KeptAnswers()) == taken
    restored, _ = restore(taken, LINE, SMALL)
    assert snapshot(restored, KeptAnswers()) == taken
    for each in (state, restored):
        done(each, CreateSchema(WEATHER))
    assert [vars_of(entry) for entry in state.schemas.values()] == [
        vars_of(entry) for entry in restored.schemas.values()
    ]
    assert state.schemas["weather"].number == 3


def vars_of(entry):
    return entry.name, entry.number, entry.share, entry.prefix, entry.epoch


def test_whoever_keeps_something_of_a_schema_hears_that_it_is_gone():
    state, heard = state_after(CreateSchema(WEATHER)), []
    state.plans.on_removed(heard.append)
    done(state, RemoveSchema("weather"))
    assert heard == ["weather"]


class LateNetwork(Network):
    """Confirms nothing while it is late."""

    def __init__(self):
        super().__init__()
        self.in_time = asyncio.Event()
        self.in_time.set()

    async def install(self, ops):
        await self.in_time.wait()
        await super().install(ops)


def test_a_schema_is_removed_only_when_no_switch_has_rules_of_it(tmp_path):
    async def scenario():
        network = LateNetwork()
        async with await Controller.open(tmp_path, LINE, network, SMALL) as controller:
            for command in (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, advertise("ann", "true")):
                await controller.submit(command)
            wanted = await controller.submit(subscribe("ann", "true"))
            network.in_time.clear()
            for each in (wanted.value["id"], next(iter(controller.state.registrations))):
                with pytest.raises(NotInstalled):
                    await controller.submit(Withdraw(each, "ann"), patience=0.01)
            before = controller.position
            with pytest.raises(UnknownName):
                await controller.submit(RemoveSchema("nothing"))
            with pytest.raises(NotInstalled, match=r"not taken: .* has not confirmed that rules of weather are gone"):
                await controller.submit(RemoveSchema("weather"), patience=0.01)
            assert controller.position == before
            await controller.submit(RemoveSchema("traffic"), patience=0.01)
            network.in_time.set()
            await controller.submit(RemoveSchema("weather"))
            assert not controller.state.schemas

    asyncio.run(asyncio.wait_for(scenario(), 20))

"""The rules of all switches, as a function of what registrations ask of them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from pleroma.control.state.network_rules import NO_INPUTS, NetworkRules, RuleInputs, inputs_of
from pleroma.control.state.tree_choice import TREE_CHOICES
from pleroma.errors import LimitReached
from pleroma.index import EVERYTHING, DzSet
from pleroma.routing import AdmitOp, Advertise, Change, DetourOp, Subscribe
from pleroma.routing.presence import Presence
from support.control_cases import LINE, SMALL, advertise, peopled, subscribe
from support.plan_change_cases import Mirror

STATE = peopled(
    advertise("ben", "wind < 6"),
    advertise("ben", "true", "h2"),
    subscribe("ben", "temperature < 3 or wind > 4"),
    subscribe("ben", "temperature in (1, 4, 9)", "h1"),
)
FORWARDED = inputs_of(STATE.registrations.values())
DETOURED = RuleInputs(detoured=[Advertise("a", "h1", DzSet.parse("00")), Subscribe("s", "h3", DzSet.parse("00"))])


def rules(topology=LINE):
    return NetworkRules(topology, SMALL.max_length)


def tables(made):
    return made.router.tables, made.detours.tables, {host: made.admissions.of(host) for host in LINE.host}


def test_inputs_are_a_request_each_and_what_publishers_may_send():
    assert [each.id for each in FORWARDED.forwarded] == list(STATE.registrations)
    assert [host for host, _ in FORWARDED.admitted] == ["h1", "h2"]
    assert not FORWARDED.detoured
    both = FORWARDED + DETOURED
    assert (both.forwarded, both.detoured, both.admitted) == (
        FORWARDED.forwarded, DETOURED.detoured, FORWARDED.admitted,
    )  # fmt: skip


def test_inputs_that_come_one_by_one_give_the_rules_of_all_at_once():
    loaded, grown = rules(), rules()
    loaded.load(FORWARDED + DETOURED)
    for each in STATE.registrations.values():
        grown.exchange(NO_INPUTS, inputs_of([each]))
    grown.exchange(NO_INPUTS, DETOURED)
    assert tables(grown) == tables(loaded)


@pytest.mark.parametrize("choice", TREE_CHOICES)
def test_detours_have_trees_while_they_stand_though_nobody_else_needs_them(choice):
    made, loaded, empty = rules(), rules(), rules()
    for each in (made, loaded, empty):
        each.resume(LINE, choice, None)
    made.exchange(NO_INPUTS, DETOURED)
    loaded.load(DETOURED)
    for each in (made, loaded):
        assert any(map(len, each.detours.tables.values()))
        before = each.router.families
        assert each.exchange(DETOURED, DETOURED) == ([], [])
        assert each.router.families == before
        each.exchange(DETOURED, NO_INPUTS)
        assert tables(each) == tables(empty)
        assert each.router.families == empty.router.families


def test_the_operations_are_the_difference():
    made, mirror = rules(), Mirror(LINE)
    half = inputs_of(list(STATE.registrations.values())[:2])
    for gone, come in pairwise([NO_INPUTS, half, FORWARDED + DETOURED, DETOURED, FORWARDED, NO_INPUTS]):
        flows, guards = made.exchange(gone, come)
        mirror.take([*flows, *guards])
        assert mirror.rules() == made.router.tables
        assert mirror.detours() == made.detours.tables
        assert {dz for _, _, dz in mirror.admitted} == set().union(*map(made.admissions.of, LINE.host))
    assert tables(made) == tables(rules())


def test_inputs_that_go_and_come_again_change_nothing():
    made = rules()
    made.load(FORWARDED + DETOURED)
    before = tables(made)
    assert made.exchange(FORWARDED + DETOURED, FORWARDED + DETOURED) == ([], [])
    assert tables(made) == before


def test_detours_and_admissions_are_guards():
    _, guards = rules().exchange(NO_INPUTS, FORWARDED + DETOURED)
    assert {type(op) for op in guards} == {DetourOp, AdmitOp}
    assert {op.change for op in guards} == {Change.ADD}


def test_all_detours_are_removed_at_once():
    made = rules()
    made.load(FORWARDED + DETOURED)
    removed = made.remove_detours()
    assert not removed.flows
    assert {(type(op), op.change) for op in removed.guards} == {(DetourOp, Change.DELETE)}
    assert not any(map(len, made.detours.tables.values()))


def test_places_that_are_reserved_stay_free_until_they_are_given_back():
    made = rules(LINE.with_limit(4))
    made.load(FORWARDED)
    full = {switch: len(table) for switch, table in made.router.tables.items()}
    assert max(full.values()) == 4
    made.reserve(2)
    assert max(len(table) for table in made.router.tables.values()) <= 2
    made.route_on(LINE.with_limit(4))
    assert max(len(table) for table in made.router.tables.values()) <= 2
    made.reserve(0)
    assert {switch: len(table) for switch, table in made.router.tables.items()} == full


def test_hosts_that_go_take_their_rules_along_and_bring_them_back():
    made, mirror, without_h3 = rules(), Mirror(LINE), Presence({"R3"}).of(LINE)
    made.load(FORWARDED + DETOURED)
    mirror.take(made.everything())
    whole = tables(made)
    for topology in (without_h3, LINE):
        flows, guards = made.route_on(topology)
        assert {op.change for op in (*flows, *guards)} >= {Change.DELETE if topology is without_h3 else Change.ADD}
        mirror.take([*flows, *guards])
        assert mirror.rules() == made.router.tables
        assert mirror.detours() == made.detours.tables
        assert (tables(made) == whole) == (topology is LINE)


def test_a_host_that_is_away_at_the_start_has_its_rules_when_it_comes():
    made, whole = rules(), rules()
    whole.load(FORWARDED + DETOURED)
    made.resume(Presence({"R3"}).of(LINE), "single", None)
    made.load(FORWARDED + DETOURED)
    assert tables(made) != tables(whole)
    made.route_on(LINE)
    assert tables(made) == tables(whole)


def test_on_the_topology_of_before_nothing_is_computed_anew():
    made = rules()
    made.load(FORWARDED + DETOURED)
    assert made.route_on(replace(LINE)) == ([], [])
    assert made.router.topology is LINE


def test_a_table_for_one_rule_has_no_room_for_a_detour():
    with pytest.raises(LimitReached):
        rules(LINE.with_limit(1)).check_detours(EVERYTHING)
    rules(LINE.with_limit(2)).check_detours(EVERYTHING)


@pytest.mark.parametrize(("limit", "detours"), [(2, 1), (15, 1), (16, 2), (80, 10)])
def test_an_eighth_of_the_smallest_table_is_for_detours(limit, detours):
    assert rules(LINE.with_limit(limit)).max_detours == detours

"""Entries of a log that no controller of this network wrote: they are refused, or do no harm."""

import pytest

from pleroma.control import ChangePlan, ControlSettings, CreateSchema, Done, command_from_json
from pleroma.control.state.command import Advance, ChooseTrees, Rewire
from pleroma.control.state.result import CommandRefused
from pleroma.control.state.tree_choice import DealtTree
from pleroma.errors import ControlError, LimitReached
from pleroma.index import Dz, DzSet
from pleroma.routing import build
from support.control_cases import ANN, SMALL, WEATHER, advertise, state_after, subscribe
from support.routing_oracle import walk

RING = build("ring:4")
HALVES = [DzSet.parse("0"), DzSet.parse("1")]
ROUND = tuple(tuple(sorted(link.ends)) for link in RING.links)


def peopled(settings=SMALL, trees="single"):
    people = (ANN, advertise("ann", "true", "h1"), subscribe("ann", "true", "h3"), subscribe("ann", "true", "h4"))
    return state_after(ChooseTrees(trees), CreateSchema(WEATHER), *people, topology=RING, settings=settings)


def change(state, *trees):
    return ChangePlan("weather", state.schemas["weather"].index, "versioning", trees=trees)


REWIRE = {"do": "rewire", "absent": [], "down": [], "rooms": {}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"absent": 5},
        {"absent": [["R1"]]},
        {"down": [1]},
        {"down": [["R1"]]},
        {"down": [["R1", "2"]]},
        {"down": [["R1", True]]},
        {"rooms": []},
        {"rooms": {"R1": None}},
        {"rooms": {"R1": "7"}},
    ],
)
def test_what_is_no_report_of_a_network_is_refused_by_name(wrong):
    with pytest.raises(ControlError, match="rewire: this is no command"):
        command_from_json(REWIRE | wrong)


@pytest.mark.parametrize("trees", [7, None, [7], {"a": 1}, [{"cells": ["0", "1"], "cables": [["R1", 2, 3, 2]]}]])
def test_what_is_no_tree_is_refused(trees):
    with pytest.raises(ControlError):
        command_from_json(change(peopled()).to_json() | {"trees": trees})


@pytest.mark.parametrize(
    "wrong", [{"rooms": {"R1": 0}}, {"rooms": {"R1": -1}}, {"wiring": 7}, {"wiring": {"links": 3}}]
)
def test_a_network_that_cannot_be_changes_nothing(wrong):
    state = peopled()
    before = dict(state.router.tables)
    assert isinstance(state.apply(9, command_from_json(REWIRE | wrong)), CommandRefused)
    assert state.router.tables == before
    assert state.there == Rewire()


def test_reports_about_another_network_leave_this_one_as_it_is():
    state = peopled()
    before = dict(state.router.tables)
    done = state.apply(9, Rewire(("R9",), (("R8", 1), ("R1", 77)), (("R9", 3),)))
    assert isinstance(done, Done)
    assert not done.switch_ops
    assert state.router.tables == before


@pytest.mark.parametrize(
    "cables",
    [(), ROUND, ((("R8", 1), ("R9", 1)),), ((("R1", 2), ("R3", 2)),), ROUND[:1]],
    ids=["none", "a cycle", "of another network", "between ports that no cable joins", "too few"],
)
def test_whatever_cables_are_named_events_travel_on_a_tree(cables):
    state = peopled()
    trees = (DealtTree(HALVES[0], cables), DealtTree(HALVES[1], ROUND[1:]))
    for position, command in enumerate(
        [change(state, *trees), Advance("weather", "swap"), Advance("weather", "clear")]
    ):
        assert isinstance(state.apply(9 + position, command), Done)
    prefix = state.schemas["weather"].prefix
    for half in "01":
        event = prefix.then(Dz.parse(half + "0" * 10))
        assert sorted(host for host, _ in walk(RING, state.router.tables, "h1", event)) == ["h3", "h4"]


def test_cells_that_no_address_can_tell_apart_are_refused():
    state = peopled()
    room = SMALL.room
    for bits, is_too_long in ((room, False), (room + 1, True)):
        chain = [Dz.parse("0" * bits), *(Dz.parse("0" * n + "1") for n in range(bits))]
        trees = [DealtTree(DzSet(cells), ()) for cells in (chain[::2], chain[1::2])]
        error = state.check(change(state, *trees))
        assert isinstance(error, LimitReached) == is_too_long, error


@pytest.mark.parametrize("room", [0, 1, 3])
def test_schemas_with_little_room_are_dealt_no_longer_cells_than_there_are(room):
    narrow = ControlSettings(schema_bits=2, max_members=4, default_bits=room, max_length=2 + room)
    state = peopled(narrow, "balanced")
    assert max(family.region.longest for family in state.router.families) <= narrow.max_length
    lengths = [flow.dz.length for table in state.router.tables.values() for flow in table]
    assert max(lengths) <= narrow.max_length

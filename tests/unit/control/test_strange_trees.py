"""Logs and snapshots that this controller did not write: they are read, or refused, or do no harm."""

import asyncio
import json
from dataclasses import replace

import pytest

from pleroma.control import ChangePlan, Controller, ControlSettings, CreateSchema, Done, command_from_json
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import Advance, ChooseTrees, LearnHost, Rewire
from pleroma.control.state.result import CommandRefused
from pleroma.control.state.tree_choice import DealtTree
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import ControlError, LimitReached, PleromaError
from pleroma.index import Dz, DzSet
from pleroma.routing import Topology, build
from pleroma.routing.topology_files import to_json
from support.control_cases import ANN, SMALL, WEATHER, Network, advertise, state_after, subscribe
from support.routing_oracle import walk

RING = build("ring:4")
CARD = "02:00:00:00:00:99"
HALVES = [DzSet.parse("0"), DzSet.parse("1")]
ROUND = tuple(tuple(sorted(link.ends)) for link in RING.links)


def peopled(settings=SMALL, trees="single"):
    people = (ANN, advertise("ann", "true", "h1"), subscribe("ann", "true", "h3"), subscribe("ann", "true", "h4"))
    return state_after(ChooseTrees(trees), CreateSchema(WEATHER), *people, topology=RING, settings=settings)


def change(state, *trees):
    return ChangePlan("weather", state.schemas["weather"].index, "versioning", trees=trees)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [(["0"], "leave cells out"), (["0", "1", "11"], "cells in common"), (["0" * 20, "1"], "longer than the")],
)
def test_trees_that_are_no_partition_or_too_fine_are_refused(cells, reason):
    state = peopled()
    rest = DzSet.parse("0") - DzSet.parse("0" * 20)
    trees = [DealtTree(DzSet.parse(each), ROUND[:3]) for each in cells]
    trees += [DealtTree(rest, ROUND[1:])] if len(cells[0]) > 1 else []
    with pytest.raises(PleromaError, match=reason):
        raise state.apply(9, change(state, *trees)).error
    assert state.plans.change is None


def test_trees_that_take_more_than_half_of_a_table_to_be_told_apart_are_refused():
    cells = [DzSet.parse(f"{number:03b}") for number in range(8)]
    trees = [DealtTree(each, ROUND[:3] if number % 2 else ROUND[1:]) for number, each in enumerate(cells)]
    refused, accepted = {}, []
    for limit in range(4, 33, 4):
        state = state_after(CreateSchema(WEATHER), ANN, advertise("ann", "true", "h1"), topology=RING.with_limit(limit))
        result = state.apply(9, change(state, *trees))
        if isinstance(result, CommandRefused):
            refused[limit] = result.error.value
        else:
            accepted.append(limit)
        assert isinstance(state.apply(10, Advance("weather", "swap")), Done) == (limit in accepted)
    (needed,) = set(refused.values())
    assert max(refused) < 2 * needed == min(accepted)


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


def old(data):
    """The snapshot as versions wrote it that knew of one tree only."""
    head, _, rest = data.partition(b"\n")
    read = json.loads(head)
    for name in ("trees", "there", "families"):
        del read[name]
    for schema in read["schemas"]:
        del schema["trees"]
    return json.dumps(read).encode() + b"\n" + rest


def test_an_old_snapshot_routes_to_hosts_that_were_learned_as_the_old_log_does():
    state = peopled()
    for position, command in enumerate([LearnHost("new", "R2", 9, "fd00::99", CARD), subscribe("ann", "true", "new")]):
        assert isinstance(state.apply(9 + position, command), Done)
    again, _ = restore(old(snapshot(state, KeptAnswers())), RING, SMALL)
    assert "new" in again.router.topology.host
    assert again.router.tables == state.router.tables
    assert snapshot(again, KeptAnswers()) == snapshot(state, KeptAnswers())


def test_what_is_known_of_the_network_and_not_in_the_log_counts_before_switches_get_their_rules(tmp_path):
    """An earlier version knew the cables that it had discovered, and wrote nothing of them to the log."""
    learned = [LearnHost(f"new{n}", f"R{n}", 1, f"fd00::9{n}", f"02:00:00:00:00:9{n}") for n in (1, 3)]
    people = (ANN, advertise("ann", "true", "new1"), subscribe("ann", "true", "new3"))
    known = Rewire(wiring=to_json(replace(RING, hosts=())))
    nowhere = Topology((), (), ())

    async def scenario():
        first = await Controller.open(tmp_path, nowhere, Network(), SMALL)
        for command in (CreateSchema(WEATHER), *learned, *people):
            await first.submit(command)
        await first.close()
        network = Network()
        async with await Controller.open(tmp_path, nowhere, network, SMALL, resume=lambda _: known) as controller:
            told = {op.switch for op in network.ops}
            assert len(told) == 3, "the rules lead from R1 to R3 by one of the others"
            assert controller.state.there == known
        async with await Controller.open(tmp_path, nowhere, Network(), SMALL) as again:
            assert again.state.there == known
            assert again.state.router.tables == controller.state.router.tables

    asyncio.run(asyncio.wait_for(scenario(), 20))

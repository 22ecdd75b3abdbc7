"""Rules above all others in a simulated table, and what hosts may send in the live network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import RoutingError, TableFull
from pleroma.index import Dz
from pleroma.routing import AdmitOp, Change, DetourOp, Flow, FlowOp, Output, build
from pleroma.switches.live.path_cache import PathCache
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork
from pleroma.switches.simulated.simulated_table import SimulatedTable

cells = st.text("01", max_size=4).map(Dz.parse)
EVENTS = [Dz.parse(f"{n:05b}") for n in range(32)]


def rule(bits, port=1):
    return Flow(Dz.parse(bits) if isinstance(bits, str) else bits, (Output(port),))


def add(flow, kind=FlowOp):
    return kind("R1", Change.ADD, flow)


@given(st.sets(cells, max_size=6), st.sets(cells, max_size=3))
def test_whatever_a_detour_covers_follows_it(rules, detours):
    table = SimulatedTable("R1", flows=[rule(dz, 1) for dz in rules])
    table.bundle(add(rule(dz, 2), DetourOp) for dz in detours)
    for event in EVENTS:
        found = table.lookup(event)
        assert found == table.match(event)
        if any(dz.covers(event) for dz in detours):
            assert found.ports == (2,)
        else:
            assert found == SimulatedTable("R1", flows=[rule(dz, 1) for dz in rules]).lookup(event)
    table.bundle(DetourOp("R1", Change.DELETE, rule(dz, 2)) for dz in detours)
    assert table.detours == []
    assert table.size == len(rules)


def test_a_detour_takes_room_and_stands_beside_a_rule_of_the_same_cell():
    table = SimulatedTable("R1", capacity=2, flows=[rule("0")])
    table.apply([add(rule("0", 2), DetourOp)])
    assert table.lookup(Dz.parse("01")).ports == (2,)
    with pytest.raises(TableFull):
        table.apply([add(rule("1"))])
    with pytest.raises(RoutingError, match="already there"):
        table.bundle([FlowOp("R1", Change.DELETE, rule("0")), add(rule("0", 3), DetourOp)])
    assert len(table) == 1  # the bundle left everything as it was
    assert table.detours == [rule("0", 2)]


@given(st.sets(cells, max_size=4), st.sets(cells, max_size=2))
def test_a_host_is_let_in_with_what_it_was_admitted_for_and_nothing_else(admitted, dismissed):
    topology = build("line:2")
    guarded, open_to_all = (PathCache(EmbeddedNetwork(topology), guarded=guarded) for guarded in (True, False))
    rules = [
        FlowOp("R1", Change.ADD, rule("", 2)),
        FlowOp("R2", Change.ADD, Flow(Dz.parse(""), (Output(1, "fd00::2"),))),
    ]
    for paths in (guarded, open_to_all):
        paths.install([*rules, *(AdmitOp("R1", Change.ADD, 1, dz) for dz in admitted)])
        paths.install([AdmitOp("R1", Change.DELETE, 1, dz) for dz in dismissed])
    allowed = admitted - dismissed
    for event in EVENTS:
        counted = guarded.find(0, event.start)
        assert counted.refused != any(dz.covers(event) for dz in allowed)
        assert [host.name for host in counted.path.receivers] == ([] if counted.refused else ["h2"])
        assert not open_to_all.find(0, event.start).refused
        assert guarded.find(1, event.start).refused

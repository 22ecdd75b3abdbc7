import pytest

from pleroma.errors import RoutingError, TableFull
from pleroma.index.dz import Dz
from pleroma.routing import DetourOp
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output
from pleroma.routing.topology import Port, SwitchId
from pleroma.switches import SimulatedTable

S = SwitchId("s")


def flow(bits, *ports):
    return Flow(Dz.parse(bits), tuple(Output(Port(port)) for port in ports))


def add(bits, *ports):
    return FlowOp(S, Change.ADD, flow(bits, *ports))


def modify(bits, *ports):
    return FlowOp(S, Change.MODIFY, flow(bits, *ports))


def delete(bits):
    return FlowOp(S, Change.DELETE, flow(bits))


def test_the_longest_matching_rule_is_the_one_followed():
    table = SimulatedTable(S, None, [flow("", 1), flow("1", 2), flow("10", 3)])
    assert table.match(Dz.parse("1011")) == flow("10", 3)
    assert table.match(Dz.parse("11")) == flow("1", 2)
    assert table.match(Dz.parse("0")) == flow("", 1)


def test_a_rule_longer_than_the_event_does_not_match_it():
    table = SimulatedTable(S, None, [flow("10", 1)])
    assert table.match(Dz.parse("1")) is table.lookup(Dz.parse("1")) is None


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (add("1", 4), "cannot add 1: the rule is already there"),
        (modify("11", 4), "cannot modify 11: the rule is not there"),
        (delete("0"), "cannot delete 0: the rule is not there"),
        (FlowOp(SwitchId("t"), Change.ADD, flow("0", 1)), "the operation is for t"),
        (add("0", 2, 2), "the rule 0 -> 2,2 names a port twice"),
    ],
)
def test_what_does_not_fit_the_table_is_refused_and_changes_nothing(op, reason):
    for change in ("apply", "bundle"):
        table = SimulatedTable(S, None, [flow("1", 2)])
        with pytest.raises(RoutingError, match=reason) as refused:
            getattr(table, change)([op])
        assert refused.value.field == "s"
        assert table.flows() == FlowTable([flow("1", 2)])


def test_a_full_table_takes_no_more_rules():
    table = SimulatedTable(S, 2, [flow("0", 1), flow("1", 1)])
    with pytest.raises(TableFull, match="no room for 11: 3 rules, the table holds 2") as full:
        table.apply([modify("0", 2), add("11", 1)])
    assert (full.value.field, full.value.value) == ("s", 3)
    assert table.flows() == FlowTable([flow("0", 2), flow("1", 1)])
    table.apply([delete("0"), add("11", 1)])
    assert len(table) == 2


def test_a_bundle_may_be_over_the_limit_only_until_its_end():
    table = SimulatedTable(S, 2, [flow("0", 1), flow("1", 1)])
    table.bundle([add("00", 2), add("11", 2), delete("0"), delete("1")])
    assert table.flows() == FlowTable([flow("00", 2), flow("11", 2)])
    with pytest.raises(TableFull):
        table.bundle([add("01", 2), add("10", 2), delete("00")])
    assert table.flows() == FlowTable([flow("00", 2), flow("11", 2)])


def test_a_bundle_that_fails_leaves_rules_and_counters_as_they_were():
    table = SimulatedTable(S, None, [flow("0", 1), flow("1", 1)])
    table.forward(Dz.parse("01"), 70)
    with pytest.raises(RoutingError, match="not there"):
        table.bundle([delete("0"), add("0", 3), modify("1", 3), add("111", 4), delete("000")])
    assert table.flows() == FlowTable([flow("0", 1), flow("1", 1)])
    assert (table.hits(Dz.parse("0")).packets, table.hits(Dz.parse("0")).bytes) == (1, 70)
    assert table.lookup(Dz.parse("1111")) == flow("1", 1)


def test_modifying_a_rule_goes_on_counting_and_adding_it_anew_does_not():
    table = SimulatedTable(S, None, [flow("0", 1)])
    table.forward(Dz.parse("01"), 70)
    table.apply([modify("0", 2)])
    assert table.forward(Dz.parse("00"), 30) == flow("0", 2)
    assert (table.hits(Dz.parse("0")).packets, table.hits(Dz.parse("0")).bytes) == (2, 100)
    table.apply([delete("0"), add("0", 2)])
    assert table.hits(Dz.parse("0")).packets == 0
    with pytest.raises(RoutingError, match="no rule 1"):
        table.hits(Dz.parse("1"))


def test_a_table_cannot_begin_over_its_limit():
    with pytest.raises(TableFull):
        SimulatedTable(S, 1, [flow("0", 1), flow("1", 1)])


def test_a_detour_counts_what_follows_it_and_leaves_the_rule_alone():
    rule, detour = flow("0", 1), flow("0", 2)
    table = SimulatedTable(S, flows=[rule])
    table.bundle([DetourOp(S, Change.ADD, detour)])
    table.count(detour, 3, 300)
    assert table.hits(Dz.parse("0")).packets == 0
    table.count(rule, 1, 50)
    assert (table.hits(Dz.parse("0")).packets, table.hits(Dz.parse("0")).bytes) == (1, 50)
    assert table.forward(Dz.parse("01"), 100) == detour

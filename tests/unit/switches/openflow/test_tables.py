"""From operations to rules."""

from ipaddress import ip_network

import pytest

from pleroma.index import IPV4, IPV6, Dz
from pleroma.routing import AdmitOp, Change, DetourOp, Flow, FlowOp, Output, build
from pleroma.switches.openflow.rule import CONTROLLER_PORT, ETH_TYPE_LLDP
from pleroma.switches.openflow.tables import (
    ADMISSION,
    COOKIE,
    COOKIE_MASK,
    FORWARDING,
    RuleLayout,
    is_detour,
)

LINE = build("line:3")


def test_every_switch_takes_events_from_links_control_from_anywhere_and_nothing_else():
    base = list(RuleLayout(IPV6).base_rules(LINE, "R2").values())
    by_port = {rule.match.in_port: rule for rule in base if rule.goto is not None}
    assert set(by_port) == {2, 3}  # its links; port 1 is a host's
    assert {rule.goto for rule in by_port.values()} == {FORWARDING}
    (control,) = [rule for rule in base if rule.sends]
    assert control.sends[0].port == CONTROLLER_PORT
    assert control.match.destination == ip_network("ff05::706c/128")
    (stranger,) = [rule for rule in base if not rule.sends and rule.goto is None]
    assert stranger.match.destination == IPV6.base
    assert stranger.priority == min(rule.priority for rule in base)
    assert all(rule.table == ADMISSION and rule.cookie & COOKIE_MASK == COOKIE for rule in base)
    assert len(RuleLayout(IPV6, discovers=True).base_rules(LINE, "R2")) == len(base) + 1
    assert any(
        r.match.eth_type == ETH_TYPE_LLDP for r in RuleLayout(IPV6, discovers=True).base_rules(LINE, "R2").values()
    )


def test_each_operation_has_its_table_and_detours_stand_above_all_cells():
    layout = RuleLayout(IPV4)
    flow = Flow(Dz.parse("01"), (Output(2),))
    longest = Flow(Dz.parse("0" * 23), (Output(2),))
    _, admitted = layout.change(AdmitOp("R1", Change.ADD, 1, Dz.parse("0")))
    key, forwarded = layout.change(FlowOp("R1", Change.ADD, flow))
    detour_key, detoured = layout.change(DetourOp("R1", Change.ADD, Flow(Dz.parse(""), (Output(3),))))
    assert (admitted.table, admitted.match.in_port, admitted.goto) == (ADMISSION, 1, FORWARDING)
    assert forwarded.match.destination == ip_network("225.160.0.0/11")
    assert detoured.priority > layout.forwarding(longest).priority
    assert key != detour_key
    assert layout.change(FlowOp("R1", Change.DELETE, flow)) == (key, None)
    assert layout.flow(detoured) is None
    assert [is_detour(rule.key) for rule in (detoured, layout.forwarding(longest), admitted)] == [True, False, False]


@pytest.mark.parametrize("addresses", [IPV4, IPV6])
def test_a_cell_admits_above_the_rule_that_drops_and_the_longer_cell_above_the_shorter(addresses):
    layout = RuleLayout(addresses)
    dropping = min(rule.priority for rule in layout.base_rules(LINE, "R2").values())
    lengths = range(addresses.bits + 1)
    priorities = [layout.admitting(1, Dz.parse("0" * length)).priority for length in lengths]
    assert priorities == sorted(set(priorities))
    assert priorities[0] > dropping


def test_only_a_rule_that_forwards_a_cell_is_read_as_a_flow():
    layout = RuleLayout(IPV6)
    flow = Flow(Dz.parse("01"), (Output(2), Output(3)))
    assert layout.flow(layout.forwarding(flow)) == flow
    assert layout.flow(layout.admitting(1, flow.dz)) is None
    forwarding = layout.forwarding(flow)
    for match in (forwarding.match._replace(in_port=1), forwarding.match._replace(destination=None)):
        assert layout.flow(forwarding._replace(match=match)) is None
    assert all(layout.flow(rule) is None for rule in layout.base_rules(LINE, "R2").values())

"""Events through the rules of a line of three switches: h1 and h2 at s1, h3 at s2, h4 at s3."""

import pytest

from pleroma.errors import UnknownName
from pleroma.index import Dz
from pleroma.routing import Flow, FlowTable, Host, HostId, Link, Output, Port, Presence, SwitchId, Topology, build
from pleroma.switches.tracing.event_trace import Wires, nearest, on_the_wire, trace
from pleroma.switches.tracing.meeting import Meeting, MetRule, TracedTables

S1, S2, S3 = (SwitchId(f"s{n}") for n in (1, 2, 3))
ADDRESS = {f"h{n}": f"fd00::{n}" for n in range(1, 5)}
HOSTS = tuple(
    Host(HostId(name), switch, Port(port), ADDRESS[name])
    for name, switch, port in (("h1", S1, 1), ("h2", S1, 2), ("h3", S2, 2), ("h4", S3, 2))
)
LINE = Topology((S1, S2, S3), HOSTS, (Link(S1, Port(3), S2, Port(1)), Link(S2, Port(3), S3, Port(1))))


def flow(bits, *outputs):
    """Outputs are ports, or (port, name of a host)."""
    made = [Output(Port(o)) if isinstance(o, int) else Output(Port(o[0]), ADDRESS[o[1]]) for o in outputs]
    return Flow(Dz.parse(bits), tuple(made))


def tables(rules=None, detours=None, admitted=("",)):
    """Everybody may send in the cells given; rules and detours by switch."""
    return {
        s: TracedTables(
            FlowTable((rules or {}).get(s, ())),
            FlowTable((detours or {}).get(s, ())),
            {host.port: {Dz.parse(bits) for bits in admitted} for host in LINE.hosts_of[s]},
        )
        for s in LINE.switches
    }


def followed(rules, host, bits, presence=None):
    return trace(Wires(LINE, presence or Presence()), rules, host, Dz.parse(bits))


def test_a_trace_tells_the_rule_at_every_switch():
    rules = {S1: [flow("1", 3), flow("1011", 3)], S2: [flow("10", 3)], S3: [flow("11", (2, "h4")), flow("0", 1)]}
    found = followed(tables(rules), "h1", "1010")
    assert (found.host, found.dz, found.receivers, found.looped) == ("h1", Dz.parse("1010"), (), False)
    first, second, third = found.steps
    assert (first.switch, first.came_from, first.in_port, first.before) == (S1, "h1", 1, None)
    assert first.meeting == Meeting(MetRule("cell", Dz(1)), MetRule("rule", Dz.parse("1"), (Output(3),)), (Output(3),))
    assert first.outputs == ((3, S2, None, True, True),)
    assert (second.switch, second.came_from, second.in_port, second.before) == (S2, S1, 1, 0)
    assert second.meeting.admitted_by == MetRule("link")
    assert third.meeting == Meeting(MetRule("link"))
    assert (third.before, third.outputs) == (1, ())


def test_a_trace_ends_at_the_receivers_and_tells_where_nothing_is_connected():
    found = followed(tables({S1: [flow("", (1, "h1"), (2, "h2"), 9)]}), "h1", "1")
    assert found.receivers == ("h2",)
    assert found.steps[0].outputs == ((2, "h2", "fd00::2", True, True), (9, None, None, False, False))
    assert found.route("h2") == (0,)
    assert found.route("h3") == ()


def test_an_address_is_read_as_a_switch_does():
    """An event's address is filled up with zeros, and a longer rule may match those."""
    assert followed(tables({S1: [flow("100", (2, "h2"))]}), "h1", "1").receivers == ("h2",)
    assert followed(tables({S1: [flow("101", (2, "h2"))]}), "h1", "1").receivers == ()
    assert str(on_the_wire(Dz.parse("1"))) == "1" + "0" * 111


def test_an_event_that_its_host_may_not_send_ends_at_the_port():
    found = followed(tables({S1: [flow("", (2, "h2"))]}, admitted=("00", "1")), "h1", "01")
    assert [step.meeting for step in found.steps] == [Meeting(None)]
    assert found.receivers == ()


def test_of_two_cells_that_admit_an_event_the_longer_one_does():
    found = followed(tables({S1: [flow("", (2, "h2"))]}, admitted=("0", "01")), "h1", "01")
    assert found.steps[0].meeting.admitted_by == MetRule("cell", Dz.parse("01"))


def test_a_detour_comes_before_every_rule():
    rules = {S1: [flow("0101", (2, "h2"))], S2: [flow("01", (2, "h3"))]}
    found = followed(tables(rules, detours={S1: [flow("0", 3)]}), "h1", "0101")
    assert [step.meeting.followed.kind for step in found.steps] == ["detour", "rule"]
    assert found.receivers == ("h3",)
    assert found.route("h3") == (1, 0)


def test_what_is_down_carries_nothing_and_is_shown():
    rules = tables({S1: [flow("", (2, "h2"), 3)], S2: [flow("", (2, "h3"))]})
    for presence in (Presence({S2}), Presence(down={(S1, Port(3))}), Presence(down={(S2, Port(1))})):
        found = followed(rules, "h1", "0", presence)
        assert found.receivers == ("h2",)
        assert found.steps[0].outputs[1] == (3, S2, None, False, True)
        assert found.route("h3") == ()
    away = followed(rules, "h1", "0", Presence(down={(S1, Port(1))}))
    assert (away.is_away, away.steps, away.receivers) == (True, (), ())
    assert not followed(rules, "h1", "0").is_away


def test_an_event_under_another_address_is_not_taken():
    found = followed(tables({S1: [flow("", (2, "h3"))]}), "h1", "0")
    assert (found.receivers, found.route("h2")) == ((), ())
    assert not found.steps[0].outputs[0].taken


def test_an_event_that_is_rewritten_on_the_way_is_none_any_more():
    found = followed(tables({S1: [flow("", (3, "h3"))], S2: [flow("", (2, "h3"))]}), "h1", "0")
    assert [step.meeting is None for step in found.steps] == [False, True]
    assert found.steps[1].outputs == ()
    assert found.receivers == ()


def test_tables_that_lead_in_circles_are_followed_once():
    ring = build("ring:3")
    ports = {s: [p for p, _, _, _ in ring.neighbours[s]] for s in ring.switches}
    rules = {
        s: TracedTables(
            FlowTable([Flow(Dz(1), tuple(sorted([Output(h.port, h.address), *map(Output, ports[s])])))]),
            FlowTable(),
            {h.port: {Dz(1)}},
        )
        for s, (h,) in ring.hosts_of.items()
    }
    found = trace(Wires(ring, Presence()), rules, "h1", Dz(1))
    assert found.looped
    assert sorted(found.receivers) == ["h1", "h2", "h3"]


def test_a_host_that_the_network_does_not_have_is_an_error():
    with pytest.raises(UnknownName, match="unknown host 'h9'"):
        followed(tables(), "h9", "0")


def test_a_rule_is_found_by_its_kind_and_its_dz_alone():
    there = tables({S1: [flow("01", 3)]}, {S1: [flow("0", 3)]}, admitted=("1",))[S1]
    host, link = Port(1), Port(3)
    assert there.find(host, "rule", Dz.parse("01")) == MetRule("rule", Dz.parse("01"), (Output(3),))
    assert there.find(host, "detour", Dz.parse("0")) == MetRule("detour", Dz.parse("0"), (Output(3),))
    assert there.find(host, "cell", Dz.parse("1")) == MetRule("cell", Dz.parse("1"))
    assert there.find(link, "link", None) == MetRule("link")
    for at, kind, bits in (
        (host, "rule", "0"),
        (host, "detour", "01"),
        (host, "cell", "01"),
        (link, "cell", "1"),
        (host, "link", ""),
        (host, "foreign", "01"),
    ):
        assert there.find(at, kind, Dz.parse(bits)) is None
    assert there.find(host, "rule", None) is None


def test_the_rules_that_share_most_bits_with_an_event_come_close():
    event = on_the_wire(Dz.parse("1010"))
    assert nearest([flow("1", 3), flow("1011", 3)], event) == ((flow("1011", 3), 3),)
    assert nearest([flow("0", 1), flow("11", (2, "h4"))], event) == ((flow("11", (2, "h4")), 1), (flow("0", 1), 0))
    assert nearest([flow("10", 3)], event) == ()

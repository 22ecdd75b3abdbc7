"""Events through the entries of a switch: table 0 admits, table 1 forwards, and rules of others may come first."""

import struct
from ipaddress import ip_address, ip_network

import pytest

from pleroma.index import IPV4, IPV6, Dz
from pleroma.routing import Change, DetourOp, Flow, Host, HostId, Output, Port, SwitchId
from pleroma.switches.openflow.flow_stats import EntryEffect, FoundEntry, found_entries
from pleroma.switches.openflow.found_rules import FoundRules, meet_known
from pleroma.switches.openflow.rule import CONTROLLER_PORT, IP_PROTO_UDP, Match, Rule, Send
from pleroma.switches.openflow.tables import COOKIE, RuleLayout
from pleroma.switches.tracing.event_trace import on_the_wire
from pleroma.switches.tracing.meeting import Meeting, MetRule

HOST = Host(HostId("h1"), SwitchId("s1"), Port(1), "fd00::1")
LAYOUT = RuleLayout(IPV6)
LAYOUT.hosts = lambda: [HOST]
EVENT = on_the_wire(Dz.parse("0101"))
PORT, LINK = Port(1), Port(3)
NORMAL = 0xFFFFFFFA


def entry(rule, /, **more):
    made = FoundEntry(
        rule.table, rule.priority, rule.cookie, rule.match, True, EntryEffect(rule.sends, rule.goto), rule
    )
    return made._replace(**more)


def flow(bits, *ports):
    return Flow(Dz.parse(bits), tuple(Output(Port(port)) for port in ports))


CELL, LINKED = LAYOUT.admitting(PORT, Dz.parse("0")), LAYOUT.linking(LINK)
RULE, SHORTER = LAYOUT.forwarding(flow("01", 3, 4)), LAYOUT.forwarding(flow("0", 5))
DETOUR = LAYOUT.change(DetourOp(SwitchId("s1"), Change.ADD, flow("0", 6)))[1]
STRANGER = next(rule for rule in LAYOUT._base_rules([]) if rule.priority == 10)
OURS = (CELL, LINKED, RULE, SHORTER, STRANGER)


def theirs(table, priority, match=None, sends=(), goto=None, cookie=7):
    return Rule(table, priority, match or Match(), sends, goto, cookie)


def found(*entries):
    """Ours, and these."""
    return FoundRules([*map(entry, OURS), *(x if isinstance(x, FoundEntry) else entry(x) for x in entries)], LAYOUT)


def met(kind, bits, *ports):
    return MetRule(kind, Dz.parse(bits), tuple(Output(Port(port)) for port in ports))


def test_an_event_at_a_hosts_port_and_one_from_a_link_follow_the_longest_rule():
    outputs = (Output(Port(3)), Output(Port(4)))
    assert found().meet(PORT, EVENT) == Meeting(MetRule("cell", Dz.parse("0")), met("rule", "01", 3, 4), outputs)
    assert found().meet(LINK, EVENT) == Meeting(MetRule("link"), met("rule", "01", 3, 4), outputs)
    other = on_the_wire(Dz.parse("001"))
    assert found().meet(PORT, other).followed == met("rule", "0", 5)


def test_what_is_not_admitted_is_dropped_and_what_has_no_rule_too():
    assert found().meet(PORT, on_the_wire(Dz.parse("1"))) == Meeting(None)
    assert found().meet(Port(9), EVENT) == Meeting(None)
    assert FoundRules([], LAYOUT).meet(PORT, EVENT) == Meeting(None)
    assert found().meet(LINK, on_the_wire(Dz.parse("1"))) == Meeting(MetRule("link"))


def test_a_detour_comes_before_rules():
    assert found(DETOUR).meet(PORT, EVENT).followed == met("detour", "0", 6)


@pytest.mark.parametrize(
    ("rule", "followed", "outputs"),
    [
        (theirs(0, 60_001), True, ()),  # drops
        (theirs(0, 60_001, Match(PORT), (Send(8),)), True, (8,)),
        (theirs(0, 60_001, Match(PORT), goto=1), False, (3, 4)),
        (theirs(0, 60_001, Match(destination=ip_network("ff0e:5000::/20")), (Send(8),)), True, (8,)),
        (theirs(1, 2000, sends=(Send(8), Send(2))), True, (2, 8)),
        (theirs(0, 60_001, Match(PORT), (Send(CONTROLLER_PORT),)), True, (CONTROLLER_PORT,)),
    ],
)
def test_a_rule_of_somebody_else_in_front_is_followed(rule, followed, outputs):
    meeting = found(rule).meet(PORT, EVENT)
    strange = [each for each in (meeting.admitted_by, meeting.followed) if each is not None and each.kind == "foreign"]
    assert strange
    assert (meeting.followed.kind == "foreign") == followed
    assert tuple(output.port for output in meeting.outputs) == outputs
    assert meeting.is_clear
    assert "cookie 0x7" in strange[0].text


@pytest.mark.parametrize(
    "rule",
    [
        theirs(0, 99, sends=(Send(8),)),  # below ours
        theirs(2, 60_001, sends=(Send(8),)),  # in a table that nothing leads to
        theirs(0, 60_001, Match(LINK), (Send(8),)),
        theirs(0, 60_001, Match(None, 0x0800), (Send(8),)),
        theirs(0, 60_001, Match(None, None, 6), (Send(8),)),
        theirs(0, 60_001, Match(destination=ip_network("ff0e:8000::/17")), (Send(8),)),
    ],
)
def test_a_rule_of_somebody_else_that_does_not_match_is_of_no_account(rule):
    assert found(rule).meet(PORT, EVENT) == found().meet(PORT, EVENT)


def test_a_rule_that_matches_more_than_is_known_may_come_first():
    more = entry(theirs(0, 60_001, Match(PORT), (Send(8),)), is_whole=False, rule=None)
    meeting = found(more).meet(PORT, EVENT)
    assert meeting == found().meet(PORT, EVENT)
    assert [rule.kind for rule in meeting.in_front] == ["foreign"]
    assert "further fields" in meeting.in_front[0].text
    assert found(more._replace(match=Match(LINK))).meet(PORT, EVENT).in_front == ()
    refused = found(more).meet(PORT, on_the_wire(Dz.parse("1")))
    assert refused.admitted_by is None
    assert len(refused.in_front) == 1


def test_where_it_is_not_known_what_a_rule_does_the_way_is_not_clear():
    odd = entry(theirs(1, 2000), effect=None, rule=None)
    meeting = found(odd).meet(PORT, EVENT)
    assert (meeting.is_clear, meeting.outputs, meeting.followed.kind) == (False, (), "foreign")
    assert meeting.followed.text.endswith("does what is not understood here")
    flooding = found(theirs(0, 60_001, sends=(Send(NORMAL),))).meet(PORT, EVENT)
    assert not flooding.is_clear
    assert "sends to NORMAL" in flooding.followed.text
    first = found(entry(theirs(0, 60_001), effect=None, rule=None)).meet(PORT, EVENT)
    assert (first.is_clear, first.followed) == (False, first.admitted_by)


def test_rules_of_ours_are_found_by_what_they_are_for():
    rules = found(DETOUR)
    assert rules.find(PORT, "rule", Dz.parse("01")) == met("rule", "01", 3, 4)
    assert rules.find(PORT, "detour", Dz.parse("0")) == met("detour", "0", 6)
    assert rules.find(PORT, "cell", Dz.parse("0")) == MetRule("cell", Dz.parse("0"))
    assert rules.find(LINK, "link", None) == MetRule("link")
    for place in ((PORT, "rule", Dz.parse("011")), (LINK, "cell", Dz.parse("0")), (PORT, "link", None)):
        assert rules.find(*place) is None
    assert rules.find(PORT, "foreign", None) is None
    impostor = FoundRules([entry(replaced(RULE, cookie=7))], LAYOUT)
    assert impostor.find(PORT, "rule", Dz.parse("01")) is None
    assert [each.dz for each in rules.forwarding()] == [Dz.parse("01"), Dz.parse("0")]
    assert list(impostor.forwarding()) == []


def replaced(rule, **more):
    fields = dict(zip(("table", "priority", "match", "sends", "goto", "cookie"), rule, strict=True)) | more
    return Rule(**fields)


def test_a_rule_of_ours_that_was_changed_says_how():
    there = FoundRules([entry(replaced(CELL, goto=None)), entry(RULE)], LAYOUT)
    assert there.meet(PORT, EVENT) == Meeting(None)
    assert there.find(PORT, "cell", Dz.parse("0")).text == "it drops"
    elsewhere = FoundRules([entry(replaced(CELL, goto=None, sends=(Send(9),))), entry(RULE)], LAYOUT)
    assert elsewhere.meet(PORT, EVENT).outputs == (Output(Port(9)),)
    assert elsewhere.find(PORT, "cell", Dz.parse("0")).text == "it sends to 9"
    delivering = LAYOUT.forwarding(Flow(Dz.parse("01"), (Output(PORT, "fd00::1"),)))
    assert FoundRules([entry(delivering)], LAYOUT).find(LINK, "rule", Dz.parse("01")).text == ""
    for send in (Send(1, ip_address("fd00::1"), "02:00:00:00:00:99"), Send(1, ip_address("fd00::9"))):
        wrong = FoundRules([entry(replaced(delivering, sends=(send,)))], LAYOUT)
        assert wrong.find(LINK, "rule", Dz.parse("01")).text.startswith("it sends to 1 as fd00::")


def test_known_rules_are_met_like_those_that_are_read():
    known = {rule.key: rule for rule in (*OURS, DETOUR)}
    for at in (PORT, LINK, Port(9)):
        for bits in ("0101", "001", "1", "0"):
            event = on_the_wire(Dz.parse(bits))
            assert meet_known(known, LAYOUT, at, event) == found(DETOUR).meet(at, event)
            del known[DETOUR.key]
            assert meet_known(known, LAYOUT, at, event) == found().meet(at, event)
            known[DETOUR.key] = DETOUR


def test_events_under_ipv4_are_followed_too():
    layout = RuleLayout(IPV4)
    rules = [layout.admitting(PORT, Dz.parse("0")), layout.forwarding(flow("01", 3))]
    met_there = FoundRules(map(entry, rules), layout).meet(PORT, EVENT)
    assert met_there == Meeting(MetRule("cell", Dz.parse("0")), met("rule", "01", 3), (Output(Port(3)),))
    assert meet_known({rule.key: rule for rule in rules}, layout, PORT, EVENT) == met_there


def raw(match, instructions=b"", *, cookie=7, priority=9, idle=0):
    """An entry of flow statistics, as the standard has it."""
    padded = match + bytes(-(4 + len(match)) % 8)
    length = 48 + 4 + len(padded) + len(instructions)
    head = struct.pack("!HBxIIHHHHHxxQQQHH", length, 0, 0, 0, priority, idle, 0, 0, 0, cookie, 0, 0, 1, 4 + len(match))
    return head + padded + instructions


IN_PORT_3 = struct.pack("!HBBI", 0x8000, 0 << 1, 4, 3)
ETH_SOURCE = struct.pack("!HBB", 0x8000, 4 << 1, 6) + bytes(6)
GOTO_4 = struct.pack("!HHB3x", 1, 8, 4)
METER_1 = struct.pack("!HHI", 6, 8, 1)


def test_entries_of_anybody_are_read_as_far_as_they_are_understood():
    plain, further, timed, metered = found_entries(
        raw(IN_PORT_3, GOTO_4) + raw(ETH_SOURCE + IN_PORT_3) + raw(IN_PORT_3, idle=5) + raw(IN_PORT_3, METER_1)
    )
    assert plain == entry(Rule(0, 9, Match(3), (), 4, 7))
    assert further == FoundEntry(0, 9, 7, Match(3), False, EntryEffect((), None), None)
    assert timed == FoundEntry(0, 9, 7, Match(3), True, EntryEffect((), None), None)
    assert metered == FoundEntry(0, 9, 7, Match(3), True, None, None)


def test_a_destination_beside_a_further_field_is_read():
    ethernet = struct.pack("!HBBH", 0x8000, 5 << 1, 2, 0x86DD)
    destination = struct.pack("!HBB", 0x8000, 27 << 1, 16) + ip_address("ff0e::1").packed
    for fields in (ethernet + destination + ETH_SOURCE, ETH_SOURCE + destination + ethernet):
        (read,) = found_entries(raw(fields))
        assert (str(read.match.destination), read.is_whole) == ("ff0e::1/128", False)


def test_a_destination_with_a_mask_that_is_no_prefix_is_a_further_field():
    masked = struct.pack("!HBB", 0x8000, 27 << 1 | 1, 32) + ip_address("ff0e::1").packed + bytes(15) + b"\1"
    udp = struct.pack("!HBBB", 0x8000, 10 << 1, 1, IP_PROTO_UDP)
    (read,) = found_entries(raw(udp + masked))
    assert (read.match, read.is_whole) == (Match(ip_proto=IP_PROTO_UDP), False)


def test_a_cookie_of_ours_is_told_by_its_upper_half():
    assert found(replaced(RULE, priority=5000, cookie=COOKIE | 5)).meet(PORT, EVENT).followed.kind == "foreign"
    near = FoundRules([entry(CELL), entry(replaced(RULE, cookie=COOKIE | 5))], LAYOUT)
    assert near.meet(PORT, EVENT).followed.kind == "rule"

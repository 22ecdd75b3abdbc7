import struct
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import SwitchError
from pleroma.routing import Change
from pleroma.switches.openflow import messages
from pleroma.switches.openflow.flow_mod import COMMANDS, flow_mod
from pleroma.switches.openflow.rule import Match, Rule, Send
from support.openflow_wire import PROTOCOLS, os_ken_flow_mod, rules, serialised, versions, xids

changes = st.sampled_from(Change)


@given(versions, xids, changes, rules())
def test_a_flow_mod_has_the_bytes_that_os_ken_writes(version, xid, change, rule):
    assert flow_mod(version, xid, change, rule) == serialised(os_ken_flow_mod(version, change, rule), xid)


@given(versions, xids, st.integers(1, 2**32 - 1), changes, rules())
def test_a_message_in_a_bundle_has_the_bytes_that_os_ken_writes(version, xid, bundle, change, rule):
    inner = os_ken_flow_mod(version, change, rule)
    inner.set_xid(xid)
    parser = PROTOCOLS[version].ofproto_parser
    kind = parser.ONFBundleAddMsg if version == 4 else parser.OFPBundleAddMsg
    theirs = kind(PROTOCOLS[version], bundle, 3, inner, [])
    assert messages.bundle_add(version, xid, bundle, change, rule) == serialised(theirs, xid)


@given(versions, xids, rules())
def test_a_field_is_set_again_only_where_it_changes(version, xid, rule):
    again = rule._replace(sends=rule.sends + rule.sends[-1:])
    assert len(flow_mod(version, xid, Change.ADD, again)) - len(flow_mod(version, xid, Change.ADD, rule)) in (0, 16)


@pytest.mark.parametrize(
    "wrong",
    [
        Rule(256, 1, Match()),
        Rule(0, 65536, Match()),
        Rule(0, 1, Match(), cookie=-1),
        Rule(0, 1, Match(in_port=2**32)),
        Rule(0, 1, Match(), (Send(1, None, "02:00:00:00:00"),)),
        Rule(0, 1, Match(), (Send(1, None, "02:00:00:00:00:+1"),)),
        Rule(0, 1, Match(), tuple(Send(1, IPv6Address(n)) for n in range(2000))),
    ],
)
def test_what_no_message_has_room_for_is_refused_before_it_is_sent(wrong):
    with pytest.raises(SwitchError):
        flow_mod(5, 1, Change.ADD, wrong)


def test_a_rule_that_fits_a_message_alone_but_not_inside_a_bundle_is_refused():
    rule = Rule(0, 1, Match(), tuple(Send(n) for n in range(1, 4091)))
    assert len(flow_mod(5, 1, Change.ADD, rule)) == 65504
    assert len(messages.bundle_add(5, 1, 1, Change.ADD, rule)) == 65520
    larger = rule._replace(sends=(*rule.sends, Send(5000)))
    assert len(flow_mod(5, 1, Change.ADD, larger)) == 65520
    with pytest.raises(SwitchError, match="room"):
        messages.bundle_add(5, 1, 1, Change.ADD, larger)


def test_every_change_has_a_command_and_no_other_word_is_one():
    assert COMMANDS.keys() == set(Change)
    with pytest.raises(ValueError, match="replace"):
        Change("replace")


def test_the_rule_of_the_last_switch_by_hand():
    """udp6 to ff0e:8000::/17 goes to host 1 with its own address, in the order set, set, output."""
    rule = Rule(
        1, 17, Match(ip_proto=17, destination=IPv6Network("ff0e:8000::/17")),
        (Send(3, IPv6Address("fd00::1"), "02:00:00:00:00:01"),), cookie=9,
    )  # fmt: skip
    message = flow_mod(5, 0x01020304, Change.ADD, rule)
    assert message[:8] == bytes([5, 14]) + struct.pack("!H", len(message)) + bytes([1, 2, 3, 4])
    assert message[48:].hex() == (
        "00010033" "80000a0286dd" "8000140111"
        "80003720" "ff0e8000000000000000000000000000" "ffff8000000000000000000000000000" "0000000000"
        "0004004000000000" "0019001880003610fd000000000000000000000000000001"
        "0019001080000606020000000001" "0000" "00000010000000030000000000000000"
    )  # fmt: skip

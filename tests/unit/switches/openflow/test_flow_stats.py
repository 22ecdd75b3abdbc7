import struct
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import SwitchError
from pleroma.switches.openflow.flow_stats import flow_entries
from pleroma.switches.openflow.rule import CONTROLLER_PORT, ETH_TYPE_IPV6, CountedRule, Match, Rule, Send
from support.openflow_wire import PROTOCOLS, rules, stats_entry, versions

counts = st.integers(0, 2**64 - 1)
RULE = Rule(0, 7, Match(1, None, 17, IPv6Network("ff0e::/16")), (Send(2), Send(3, IPv6Address(1), "02:00:00:00:00:01")))


@given(versions, st.lists(st.tuples(rules(), counts, counts), max_size=4))
def test_rules_come_back_as_they_were_written(version, written):
    body = b"".join(stats_entry(version, *entry) for entry in written)
    assert flow_entries(body) == [CountedRule(*entry) for entry in written]


@given(versions, rules())
def test_os_ken_reads_the_same_entry(version, rule):
    """So the oracle's own fixed part is laid out right."""
    entry = PROTOCOLS[version].ofproto_parser.OFPFlowStats.parser(stats_entry(version, rule, 11, 12), 0)
    assert (entry.table_id, entry.priority, entry.cookie) == (rule.table, rule.priority, rule.cookie)
    assert (entry.packet_count, entry.byte_count) == (11, 12)


@given(st.data(), versions, rules())
def test_damaged_entries_are_read_or_refused_and_nothing_else(data, version, rule):
    body = bytearray(stats_entry(version, rule) + stats_entry(version, RULE))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    try:
        entries = flow_entries(bytes(body))
    except SwitchError:
        return
    assert all(entry is None or isinstance(entry, CountedRule) for entry in entries)


@pytest.mark.parametrize("foreign", [{"idle": 10}, {"flags": 1}])
def test_an_entry_that_ends_by_itself_or_has_flags_is_not_ours(foreign):
    assert flow_entries(stats_entry(5, RULE, **foreign)) == [None]


def entry(match: bytes, instructions: bytes) -> bytes:
    match = struct.pack("!HH", 1, 4 + len(match)) + match + bytes(-(4 + len(match)) % 8)
    head = struct.pack("!HBxIIHHHHHxxQQQ", 48 + len(match) + len(instructions), 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0)
    return head + match + instructions


def apply(actions: bytes) -> bytes:
    return struct.pack("!HHI", 4, 8 + len(actions), 0) + actions


OUTPUT = struct.pack("!HHIH6x", 0, 16, 1, 0)
TO = struct.pack("!HHI16s", 25, 24, 0x80003610, bytes(16))
ETHERNET = bytes.fromhex("80000a0286dd")


@pytest.mark.parametrize(
    ("match", "instructions"),
    [
        (bytes.fromhex("80000c020001"), b""),  # VLAN
        (bytes.fromhex("80000b0486ddfff0"), b""),  # part of the Ethernet type
        (ETHERNET + bytes.fromhex("80003720") + bytes(16) + bytes(15) + b"\1", b""),  # a mask that is no prefix
        (ETHERNET + bytes.fromhex("80003720") + bytes(15) + b"\1" + b"\xff" + bytes(15), b""),  # bits outside the mask
        (bytes.fromhex("80000a02080080003610") + bytes(16), b""),  # IPv6 in IPv4
        (b"", struct.pack("!HHI", 5, 8, 0)),  # clear actions
        (b"", struct.pack("!HHI", 3, 24, 0) + OUTPUT),  # write actions
        (b"", apply(b"")),
        (b"", apply(OUTPUT + TO)),  # what is set and never sent
        (b"", apply(TO + OUTPUT) + struct.pack("!HHB3x", 1, 8, 2)),  # the next table would see it rewritten
        (b"", apply(OUTPUT) + apply(OUTPUT)),
        (b"", apply(struct.pack("!HHI", 22, 8, 5))),  # a group
        (b"", apply(struct.pack("!HHIH6x", 0, 16, CONTROLLER_PORT, 128))),  # not the whole packet
    ],
)
def test_well_formed_entries_that_are_no_rules_are_none(match, instructions):
    other = entry(match, instructions)
    assert flow_entries(other + stats_entry(5, RULE)) == [None, CountedRule(RULE, 0, 0)]


@pytest.mark.parametrize(
    "body",
    [
        stats_entry(5, RULE)[:-1],
        stats_entry(5, RULE) + bytes(20),
        entry(b"", apply(struct.pack("!HHIH6x", 0, 0, 1, 0))),
        entry(b"", struct.pack("!HHI", 4, 0, 0)),
        entry(b"", apply(OUTPUT)[:-1]),
        entry(b"\x80\0\1", b""),
        entry(bytes.fromhex("80003610"), b""),  # the head of a destination and nothing of it
        entry(ETHERNET[:-1], b""),
        struct.pack("!HBxIIHHHHHxxQQQHH", 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 4),
    ],
)
def test_lengths_that_do_not_add_up_are_an_error(body):
    with pytest.raises(SwitchError):
        flow_entries(body)


def test_a_rewritten_field_stays_in_force_for_later_outputs():
    other = struct.pack("!HHIH6x", 0, 16, 2, 0)
    (read,) = flow_entries(entry(ETHERNET, apply(TO + OUTPUT + other)))
    assert read is not None
    assert read.rule == Rule(0, 7, Match(eth_type=ETH_TYPE_IPV6), (Send(1, IPv6Address(0)), Send(2, IPv6Address(0))))

import copy
import pickle
from ipaddress import IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import SwitchError
from pleroma.switches.openflow.rule import ETH_TYPE_IPV4, ETH_TYPE_IPV6, ETH_TYPE_LLDP, Match, Rule, Send
from support.openflow_wire import rules

EVENTS = IPv6Network("ff0e::/16")
ONE, TWO = IPv6Address(1), IPv6Address(2)


@given(rules(), st.randoms())
def test_the_order_in_which_sends_are_written_makes_no_difference(rule, random):
    sends = list(rule.sends)
    random.shuffle(sends)
    assert rule._replace(sends=tuple(sends)) == rule


@given(rules())
def test_no_send_finds_a_field_rewritten_that_it_leaves_alone(rule):
    destination = ethernet = False
    for send in rule.sends:
        assert send.destination is not None or not destination
        assert send.ethernet is not None or not ethernet
        destination |= send.destination is not None
        ethernet |= send.ethernet is not None


@given(rules())
def test_a_rule_survives_pickling_and_copying(rule):
    assert pickle.loads(pickle.dumps(rule)) == rule == copy.deepcopy(rule)  # noqa: S301


def test_plain_sends_come_first_and_each_kind_by_port():
    rule = Rule(0, 1, Match(), (Send(2, TWO), Send(9), Send(1, ONE), Send(3)))
    assert rule.sends == (Send(3), Send(9), Send(1, ONE), Send(2, TWO))


def test_a_destination_implies_the_ethernet_type_and_all_destinations_are_none():
    assert Match(destination=EVENTS) == Match(eth_type=ETH_TYPE_IPV6, destination=EVENTS)
    assert Match(destination=IPv4Network("0.0.0.0/0")) == Match(eth_type=ETH_TYPE_IPV4)
    assert Match()._replace(destination=EVENTS).eth_type == ETH_TYPE_IPV6


PACKETS = [
    (port, eth_type, proto, address)
    for port in (1, 2)
    for eth_type, address in ((ETH_TYPE_IPV6, 0), (ETH_TYPE_IPV6, 1 << 127), (ETH_TYPE_IPV4, 0), (ETH_TYPE_LLDP, None))
    for proto in (6, 17)
]
matches = st.builds(
    Match,
    st.sampled_from([None, 1, 2]),
    st.none(),
    st.sampled_from([None, 6, 17]),
    st.sampled_from(
        [None, IPv6Network("::/0"), IPv6Network("::/1"), IPv6Network("8000::/1"), IPv4Network("0.0.0.0/1")]
    ),
)


def takes(match, packet):
    """Whether a packet is one that a match is for, of two addresses that stand for the halves of all."""
    *fields, address = packet
    if any(mine not in (None, its) for mine, its in zip(match[:3], fields, strict=True)):
        return False
    return match.destination is None or int(match.destination.network_address) == address


@given(matches, matches)
def test_a_match_covers_another_if_it_takes_every_packet_that_the_other_takes(one, other):
    assert one.covers(other) == all(takes(one, packet) for packet in PACKETS if takes(other, packet))


@given(*[st.tuples(st.integers(0, 15), st.integers(0, 4))] * 2)
def test_a_destination_covers_those_that_lie_in_it(one, other):
    ours, theirs = (IPv6Network(((bits >> 4 - n << 4 - n) << 124, n)) for bits, n in (one, other))
    assert Match(destination=ours).covers(Match(destination=theirs)) == theirs.subnet_of(ours)


def test_ethernet_addresses_compare_whatever_their_case():
    assert Send(1, None, "0A:00:00:00:00:0B") == Send(1, None, "0a:00:00:00:00:0b")


def test_the_key_leaves_out_what_a_rule_does():
    rule = Rule(1, 2, Match(destination=EVENTS), (Send(1),), cookie=3)
    assert rule.key == Rule(1, 2, Match(destination=EVENTS), cookie=4).key == (1, 2, Match(destination=EVENTS))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Match(eth_type=ETH_TYPE_IPV4, destination=EVENTS),
        lambda: Rule(0, 1, Match(), (Send(1, ONE), Send(2, None, "02:00:00:00:00:01"))),
        lambda: Rule(0, 1, Match(), (Send(1, ONE),), goto=1),
    ],
)
def test_what_a_switch_would_do_otherwise_than_it_reads_is_refused(wrong):
    with pytest.raises(SwitchError):
        wrong()

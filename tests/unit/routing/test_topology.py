"""Topologies as values, and the mistakes that are found in them."""

import math

import pytest

from pleroma.errors import PleromaError, UnknownName
from pleroma.routing.topology import Host, Link, Topology

SWITCHES = ("R1", "R2", "R3")
HOSTS = (Host("h1", "R1", 1, "fd00::1"), Host("h2", "R3", 1, "fd00::2"))
LINKS = (Link("R1", 2, "R2", 1), Link("R3", 2, "R2", 2))
GOOD = Topology(SWITCHES, HOSTS, LINKS, {"R1": 10, "R2": 20})


def test_ports_are_those_in_use_and_sorted():
    assert GOOD.ports == {"R1": (1, 2), "R2": (1, 2), "R3": (1, 2)}


def test_neighbours_are_seen_from_either_end_of_a_link():
    assert GOOD.neighbours == {
        "R1": ((2, "R2", 1, LINKS[0]),),
        "R2": ((1, "R1", 2, LINKS[0]), (2, "R3", 2, LINKS[1])),
        "R3": ((2, "R2", 2, LINKS[1]),),
    }


def test_hosts_are_found_by_switch_and_by_name():
    assert GOOD.hosts_of == {"R1": (HOSTS[0],), "R2": (), "R3": (HOSTS[1],)}
    assert GOOD.find_host("h2") is HOSTS[1]


def test_an_unknown_host_gets_a_suggestion():
    with pytest.raises(UnknownName, match="unknown host 'H2'; did you mean 'h2'"):
        GOOD.find_host("H2")


def test_a_cut_link_leaves_everything_else():
    cut = GOOD.without(links=[LINKS[0]])
    assert (cut.switches, cut.hosts, cut.links, cut.limits) == (SWITCHES, HOSTS, LINKS[1:], GOOD.limits)
    assert GOOD.links == LINKS


def test_a_failed_switch_takes_its_hosts_links_and_limit_with_it():
    left = GOOD.without(switches=["R1"])
    assert left == Topology(("R2", "R3"), HOSTS[1:], LINKS[1:], {"R2": 20})


def test_a_network_may_lose_its_last_switch():
    assert GOOD.without(switches=SWITCHES) == Topology((), (), ())


def test_one_limit_can_be_set_for_all_switches_and_taken_away():
    assert GOOD.with_limit(5).limits == {"R1": 5, "R2": 5, "R3": 5}
    assert GOOD.with_limit(None).limits == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"switches": ("R1", "R2", "R3", "R2")}, "R2: is listed twice"),
        ({"hosts": (HOSTS[0], Host("h1", "R2", 9, "fd00::9"))}, "h1: is listed twice"),
        ({"hosts": (HOSTS[0], Host("h9", "R2", 9, "fd00::1"))}, "fd00::1: the address is used by two hosts"),
        ({"hosts": (Host("h1", "R4", 1, "fd00::1"),)}, "h1: unknown switch 'R4'; known: R1, R2, R3"),
        ({"hosts": (Host("R2", "R1", 1, "fd00::1"),)}, "R2: is both a host and a switch"),
        ({"hosts": (Host("h1", "R1", 1, "fd00::g"),)}, "h1: 'fd00::g' is not an address"),
        ({"hosts": (Host("h1", "R1", 1, "fd00::1", latency=-1.0),)}, "h1: latency -1.0 is not a time"),
        ({"hosts": (Host("h1", "R1", 1, "fd00::1", capacity=0),)}, "h1: capacity 0 is not positive"),
        ({"hosts": (Host("h1", "R1", 2, "fd00::1"),)}, "R1: port 2 is used twice"),
        ({"links": (Link("R1", 2, "X9", 1),)}, "link R1-X9: unknown switch 'X9'; known: R1, R2, R3"),
        ({"links": (Link("R1", 2, "R1", 3),)}, "link R1-R1: a link joins two different switches"),
        ({"links": (Link("R1", 2, "R2", 1, latency=math.inf),)}, "link R1-R2: latency inf is not a time"),
        ({"links": (Link("R1", 2, "R2", 1, capacity=math.nan),)}, "link R1-R2: capacity nan is not positive"),
        ({"links": (Link("R1", 2, "R2", 1), Link("R2", 1, "R3", 2))}, "R2: port 1 is used twice"),
        ({"links": (Link("R1", 0, "R2", 1),)}, "R1: port 0 is not between 1 and 65279"),
        ({"links": (Link("R1", 2, "R2", 65280),)}, "R2: port 65280 is not between 1 and 65279"),
        ({"links": (Link("R1", True, "R2", 1),)}, "R1: port True is not between 1 and 65279"),
        ({"limits": {"R7": 5}}, "limits: unknown switch 'R7'; known: R1, R2, R3"),
        ({"limits": {"R1": 0}}, "R1: a table has room for at least one rule, not 0"),
        ({"hosts": (Host("h1", "R1", 1, "fd00::1", mac="02:xx"),)}, "h1: '02:xx' is not an Ethernet address"),
        ({"datapaths": {"R7": 5}}, "datapaths: unknown switch 'R7'; known: R1, R2, R3"),
        ({"datapaths": {"R1": 0}}, "R1: 0 is not a datapath number"),
        ({"datapaths": {"R1": 2}}, "datapaths: datapath 2 belongs to R1 and R2"),
    ],
)
def test_a_mistake_is_named(change, reason):
    parts = {"switches": SWITCHES, "hosts": HOSTS, "links": LINKS} | change
    with pytest.raises(PleromaError) as caught:
        Topology(**parts)
    assert str(caught.value) == reason


def test_a_network_may_be_parted():
    assert Topology(("R1", "R2"), (), ()).neighbours == {"R1": (), "R2": ()}


def test_a_switch_keeps_its_number_when_others_fail():
    topology = Topology(SWITCHES, HOSTS, LINKS, datapaths={"R3": 77})
    assert topology.datapath == {"R1": 1, "R2": 2, "R3": 77}
    assert topology.without(switches=["R1"]).datapath == {"R2": 2, "R3": 77}


def test_a_host_without_a_known_card_gets_an_ethernet_address_of_its_own():
    assert Host("h", "R1", 1, "fd00::1:2").ethernet == "02:00:00:01:00:02"
    assert Host("h", "R1", 1, "10.1.2.3").ethernet == "02:00:0a:01:02:03"
    assert Host("h", "R1", 1, "10.1.2.3", mac="52:54:00:12:34:56").ethernet == "52:54:00:12:34:56"

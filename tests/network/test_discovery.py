"""A controller that is told nothing of its network finds out how the switches are joined, and learns its hosts."""

import socket
import time
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from pleroma.control import LearnHost
from pleroma.routing import Link, Topology, build
from pleroma.switches.openflow.frames import Beacon
from support.network.weather_requests import BEGINNING, advertise, random_event, random_filter, subscribe
from support.network.world import HASTY, world
from support.waiting import wait_until

LLDP = 0x88CC


def as_discovered(topology):
    """The same network under the names that switches get by their numbers."""
    names = {switch: f"s{number:x}" for switch, number in topology.datapath.items()}
    hosts = tuple(replace(host, switch=names[host.switch], mac=host.ethernet) for host in topology.hosts)
    links = []
    for link in topology.links:
        (a, a_port), (b, b_port) = sorted((names[switch], port) for switch, port in link.ends)
        links.append(Link(a, a_port, b, b_port))
    return Topology(tuple(names.values()), hosts, tuple(links))


RING = as_discovered(build("ring:4"))
LEARNED = tuple(LearnHost(h.name, h.switch, h.port, h.address, h.ethernet) for h in RING.hosts)


@pytest.fixture
def ring(tmp_path):
    with world(RING, tmp_path, timeouts=HASTY, discovers=True, begin=(*BEGINNING, *LEARNED)) as made:
        wait_until(
            lambda: set(made.network.discovered.topology.links) == set(RING.links),
            lambda: made.network.discovered.topology,
        )
        draw = Random(1)
        made.submit(*(advertise(host.name, "true") for host in RING.hosts))
        made.submit(*(subscribe(host.name, random_filter(draw)) for host in RING.hosts * 3))
        made.until_right()
        yield made


def some_events(count=60):
    draw = Random(2)
    return [(draw.choice(RING.hosts).name, random_event(draw)) for _ in range(count)]


def test_switches_and_links_are_found_and_events_go_where_they_should(ring):
    assert ring.check(*some_events())


def test_a_cut_link_is_gone_round_and_used_again(ring):
    link = RING.links[0]
    ring.lab.cut(link)
    ring.until_right(RING.without(links=[link]))
    assert ring.check(*some_events())
    ring.lab.mend(link)
    ring.until_right()
    assert ring.check(*some_events())


def test_a_link_that_carries_nothing_one_way_is_gone_round_though_its_ports_are_up(ring):
    link = RING.links[0]
    deaf = ring.lab.names.port(link.b, link.b_port)
    ring.lab.ofctl(link.b, "mod-port", deaf, "no-receive")
    ring.until_right(RING.without(links=[link]))
    assert ring.check(*some_events())
    ring.lab.ofctl(link.b, "mod-port", deaf, "receive")
    ring.until_right()
    assert ring.check(*some_events())


def raw(ring, host):
    with ring.lab.inside(host):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(LLDP))
        made.bind(("eth0", LLDP))
    return made


def test_a_host_invents_no_link_by_beacons_of_its_own_or_by_sending_back_what_it_hears(ring):
    with raw(ring, "h1") as card:
        card.settimeout(30)
        heard = [card.recv(2000) for _ in range(2)]
        for datapath, port in ((3, 1), (3, 9), (9, 1)):
            card.send(Beacon(datapath, port, "pleroma").pack(b"a guess"))
        for frame in heard:
            card.send(frame)
            card.send(frame[:-20] + bytes(20))
        arrived = [card.recv(2000) for _ in range(2)]  # two more rounds of beacons: the switch is still looked after
    assert all(Beacon.unpack(frame, b"") is not None for frame in arrived)
    assert set(ring.network.discovered.topology.links) == set(RING.links)
    assert set(ring.network.discovered.topology.switches) == set(RING.switches)
    ring.until_right()
    assert ring.check(*some_events())


def test_a_restart_begins_with_what_was_found_and_not_one_event_is_lost(ring):
    ring.submit(subscribe("h3", "true"))
    ring.until_right()
    stream = ring.stream("h1", random_event(Random(3)))
    stream.start()
    try:
        stream.go_on(50)
        ring.stop()
        ring.start()
        ring.until_right()
        time.sleep(1)  # another round of beacons
        changed = {switch: each.counts.changed for switch, each in ring.status.items()}
        ring.until_right()
    finally:
        stream.end()
    expected = Counter(("h3", payload) for payload in stream.payloads)
    found = ring.hosts.gather(expected)
    assert {each: n for each, n in found.items() if each[0] == "h3"} == expected
    assert changed == dict.fromkeys(RING.switches, 0)

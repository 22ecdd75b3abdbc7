"""What a host may send ends at its own port: only what it has advertised goes any further."""

import socket

import pytest

from pleroma.routing import build
from pleroma.wire.ports import EVENTS_PORT
from support.network.weather_requests import WEATHER, advertise, subscribe
from support.network.world import world
from support.waiting import wait_until

LINE = build("line:3")
WARM = WEATHER.event(temperature=25, wind=3, sky="sun")
COLD = WEATHER.event(temperature=-10, wind=3, sky="snow")


@pytest.fixture
def line(tmp_path):
    with world(LINE, tmp_path) as made:
        made.submit(advertise("h1", "temperature >= 0"), subscribe("h3", "true"), subscribe("h2", "wind < 10"))
        yield made


def test_an_event_that_was_advertised_passes_and_another_is_dropped_and_counted(line):
    assert line.check(("h1", WARM)) == {("h2", 1): 1, ("h3", 1): 1}
    assert line.switches.dropped("R1") == 0
    assert line.check(*[("h1", COLD)] * 5) == {}
    assert line.switches.dropped("R1") == 5
    assert line.switches.dropped("R2") == line.switches.dropped("R3") == 0


def test_who_has_advertised_nothing_may_send_nothing(line):
    assert line.check(*[("h3", WARM)] * 3, *[("h3", COLD)] * 3) == {}
    assert line.switches.dropped("R3") == 6


def test_an_advertisement_counts_for_its_own_host_and_until_it_is_withdrawn(line):
    (made,) = line.submit(advertise("h2", "temperature < 0"))
    assert line.check(("h2", COLD), ("h1", COLD), ("h2", WARM)) == {("h3", 1): 1}
    line.withdraw(made["id"])
    assert line.check(("h2", COLD)) == {}
    assert (line.switches.dropped("R1"), line.switches.dropped("R2")) == (1, 2)


def test_other_protocols_than_udp_get_nowhere_under_the_address_of_an_event(line):
    address = str(line.switches.addresses.address(line.mirror.dz(WARM)))
    with line.lab.inside("h1"):
        raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 253)  # a number for experiments
        card = socket.if_nametoindex("eth0")
    with raw:
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, card)
        raw.sendto(b"no datagram", (address, 0))
    wait_until(lambda: line.switches.dropped("R1") == 1, "it is counted")
    assert sum(sum(each.packets for each in line.switches.lines(s, 1)) for s in LINE.switches) == 0


def test_a_host_cannot_reach_another_directly_past_the_rules(line):
    with line.lab.inside("h1"):
        sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with sender:
        for _ in range(3):
            sender.sendto(b"forged", (LINE.find_host("h3").address, EVENTS_PORT))
    assert line.check(("h1", WARM)) == {("h2", 1): 1, ("h3", 1): 1}

"""Ten real switches and eight hosts: what is asked of the controller is what happens to packets."""

from collections import Counter
from random import Random

import pytest

from pleroma.index.address import IPV4, IPV6
from pleroma.routing import build, with_ipv4
from support.network.weather_requests import advertise, random_event, random_filter, subscribe
from support.network.world import world

TESTBED = build("testbed")
HOSTS = [host.name for host in TESTBED.hosts]


@pytest.fixture(scope="module", params=["IPv6", "IPv4"])
def testbed(request, tmp_path_factory):
    v6 = request.param == "IPv6"
    topology = TESTBED if v6 else with_ipv4(TESTBED)
    with world(topology, tmp_path_factory.mktemp("control"), addresses=IPV6 if v6 else IPV4) as made:
        made.submit(
            advertise("h1", "temperature >= 0"),
            advertise("h5", 'sky = "rain"'),
            subscribe("h2", "temperature > 30"),
            subscribe("h4", "wind > 50 and temperature < 30"),
            subscribe("h8", 'sky = "rain" and wind < 20'),
            subscribe("h1", "wind = 3"),
            subscribe("h5", "temperature >= 10 and temperature <= 12"),
        )
        yield made


def test_events_come_to_all_who_want_them_and_to_nobody_without_rules(testbed):
    draw = Random(1)
    events = [(draw.choice(("h1", "h5")), random_event(draw)) for _ in range(300)]
    found = testbed.check(*events)
    assert {host for host, _ in found} == {"h1", "h2", "h4", "h5", "h8"}


def test_the_switches_have_the_tables_of_the_simulated_network(testbed):
    real = testbed.switches.tables
    assert real == testbed.mirror.tables
    assert sum(map(len, real.values())) > 10


def test_ports_of_hosts_let_in_the_cells_that_were_advertised(testbed):
    real = testbed.switches.admitted()
    assert real == testbed.mirror.admitted
    assert set(real) == {("R7", 1), ("R9", 1)}


def test_rules_count_the_packets_that_the_simulation_says(testbed):
    draw = Random(2)
    testbed.check(*((draw.choice(("h1", "h5")), random_event(draw)) for _ in range(200)))
    tables = testbed.mirror.network.tables.items()
    predicted = {(s, flow.dz): table.hits(flow.dz).packets for s, table in tables for flow in table}
    assert testbed.switches.hits == predicted
    assert sum(predicted.values()) > 200


@pytest.mark.parametrize("seed", [11, 12])
def test_whatever_is_asked_and_withdrawn_events_come_once_to_all_who_want_them(tmp_path, seed):
    draw = Random(seed)
    with world(TESTBED, tmp_path) as made:
        standing = []
        for _ in range(4):
            commands = [advertise(draw.choice(HOSTS), random_filter(draw, 0.9)) for _ in range(5)]
            commands += [subscribe(draw.choice(HOSTS), random_filter(draw)) for _ in range(12)]
            standing += [answer["id"] for answer in made.submit(*commands)]
            draw.shuffle(standing)
            made.withdraw(*standing[:6])
            del standing[:6]
            made.until_right()
            found = made.check(*((draw.choice(HOSTS), random_event(draw)) for _ in range(150)))
            assert found


def test_requests_of_others_do_not_cost_or_double_a_single_event(tmp_path):
    draw = Random(13)
    with world(TESTBED, tmp_path) as made:
        event = random_event(draw)
        made.submit(advertise("h1", "true"), subscribe("h8", "true"), subscribe("h2", f"wind = {event['wind']}"))
        stream = made.stream("h1", event)
        stream.start()
        try:
            others, standing = [h for h in HOSTS if h not in ("h2", "h8")], []
            for _ in range(12):
                commands = [subscribe(draw.choice(others), random_filter(draw)) for _ in range(6)]
                commands += [advertise(draw.choice(others), random_filter(draw, 0.9)) for _ in range(2)]
                standing += [answer["id"] for answer in made.submit(*commands)]
                draw.shuffle(standing)
                made.withdraw(*standing[:5])
                del standing[:5]
        finally:
            stream.end()
        expected = Counter((host, payload) for host in ("h2", "h8") for payload in stream.payloads)
        found = made.hosts.gather(expected)
        assert {each: n for each, n in found.items() if each[0] in ("h2", "h8")} == expected
        assert set(found.values()) == {1}
        assert stream.sent > 100


def test_a_filter_in_the_place_of_another_neither_costs_nor_doubles_an_event_that_both_match(tmp_path):
    """As a client updates a subscription: the new filter is in force before the old one is withdrawn."""
    draw = Random(17)
    with world(TESTBED, tmp_path) as made:
        event = random_event(draw)
        common = f"wind = {event['wind']}"
        made.submit(advertise("h1", "true"), advertise("h5", "true"))
        (before,) = made.submit(subscribe("h8", common))
        stream = made.stream("h1", event)
        stream.start()
        try:
            for _ in range(15):
                (after,) = made.submit(subscribe("h8", f"{common} or {random_filter(draw)}"))
                made.withdraw(before["id"])
                before = after
        finally:
            stream.end()
        expected = Counter(("h8", payload) for payload in stream.payloads)
        assert made.hosts.gather(expected) == expected
        assert stream.sent > 100

"""Links are cut, switches die, connections stall, and rules are changed by hand: afterwards nothing is missing or left.

While something is broken, events go round it where there is a way, and who cannot be reached is named.
"""

import asyncio
import os
import re
import signal
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
from structlog.testing import capture_logs

from pleroma.lab import registry
from pleroma.routing import build
from pleroma.service import create_app
from pleroma.switches.openflow.agent import SwitchTimeouts
from support.network.weather_requests import advertise, random_event, random_filter, subscribe
from support.network.world import HASTY, world
from support.service.in_process import UNLIMITED, Api
from support.waiting import LIMIT_SECONDS, wait_until

LINE = build("line:3")
RING = build("ring:4")


def populate(made, seed=1, subscriptions=12):
    """Everybody says everything and wants a few things."""
    draw = Random(seed)
    hosts = [host.name for host in made.topology.hosts]
    made.submit(*(advertise(host, "true") for host in hosts))
    made.submit(*(subscribe(host, random_filter(draw)) for host in hosts * (subscriptions // len(hosts))))


def some_events(made, count=60, seed=2):
    draw = Random(seed)
    hosts = [host.name for host in made.topology.hosts]
    return [(draw.choice(hosts), random_event(draw)) for _ in range(count)]


def unreachable(made):
    return made.plane.presence().unreachable(made.topology)


class Monitor:
    """A service on a network, as an operator sees it: health, metrics, the stream and the log."""

    def __init__(self, made):
        self._made = made
        self._feed = made.controller.feed.subscribe(types=frozenset({"network"}))
        self._api = made.run(self._open())
        self._watch = self._api.app.state.service.network_watch

    async def _open(self):
        return Api(create_app(self._made.controller, self._made.plane, UNLIMITED))

    def __enter__(self):
        self._made.run(self._watch.__aenter__())
        return self

    def __exit__(self, *_):
        self._made.run(self._watch.__aexit__())

    def health(self):
        return self._made.run(self._api.health())

    def metrics(self):
        return self._made.run(self._api("GET", "/metrics", 200)).text

    def until_told(self, *changes):
        """Wait until the stream has told these changes, and return all of its items since the last time."""
        items, wanted = [], set(changes)

        async def read():
            async with asyncio.timeout(LIMIT_SECONDS):
                async for item in self._feed:
                    items.append({(each["what"], each["name"], each["state"]) for each in item["changes"]})
                    if wanted <= set.union(*items):
                        return items
            return None

        return self._made.run(read())


@pytest.fixture
def ring(tmp_path):
    with world(RING, tmp_path, timeouts=HASTY) as made:
        populate(made)
        made.until_right()
        yield made


@pytest.fixture
def line(tmp_path):
    with world(LINE, tmp_path, timeouts=HASTY) as made:
        populate(made)
        made.until_right()
        yield made


# -- links -----------------------------------------------------------------------------------------------------------


def test_events_go_round_a_cut_link_and_back_when_it_is_mended(ring):
    assert ring.check(*some_events(ring))
    for link in RING.links:
        ring.lab.cut(link)
        ring.until_right(RING.without(links=[link]))
        assert unreachable(ring) == []
        assert ring.check(*some_events(ring, 30))
        ring.lab.mend(link)
        ring.until_right()
    assert ring.check(*some_events(ring))


def test_who_is_behind_a_cut_without_a_way_round_is_named_and_gets_events_again_afterwards(line):
    link = LINE.links[1]  # R2 - R3
    with Monitor(line) as monitor:
        assert monitor.health() == ("ok", {})
        line.lab.cut(link)
        line.until_right(LINE.without(links=[link]))
        wait_until(lambda: unreachable(line) == ["h3"], "the one that is alone is named")
        assert monitor.health() == ("degraded", {"links": f"cut: {link}", "hosts": "not reached: h3"})
        monitor.until_told(("link", str(link), "cut"), ("host", "h3", "unreachable"))
        found, expected, _ = line.publish(*some_events(line))
        assert found == expected
        assert {host for host, _ in found} == {"h1", "h2"}
        line.submit(subscribe("h3", "wind < 40"))  # it waits
        line.lab.mend(link)
        line.until_right()
        assert unreachable(line) == []
        assert monitor.health() == ("ok", {})
        monitor.until_told(("link", str(link), "mended"), ("host", "h3", "reachable"))
        assert "h3" in {host for host, _ in line.check(*some_events(line))}


def test_a_host_whose_cable_is_pulled_is_named(line):
    line.lab.cut(LINE.find_host("h3"))
    wait_until(lambda: unreachable(line) == ["h3"], "it is named")
    line.lab.mend(LINE.find_host("h3"))
    wait_until(lambda: unreachable(line) == [], "it is back")
    line.until_right()
    assert line.check(*some_events(line))


# -- switches --------------------------------------------------------------------------------------------------------


def test_events_go_round_a_deleted_switch_and_through_it_when_it_is_back(ring):
    with Monitor(ring) as monitor:
        assert 'pleroma_switch_ready{switch="R2"} 1.0' in monitor.metrics()
        with capture_logs() as lines:
            ring.lab.drop_bridge("R2")
            wait_until(lambda: ring.status["R2"].state == "gone", "it is noticed")
            monitor.until_told(("switch", "R2", "gone"), ("host", "h2", "unreachable"))
        assert [each["gone"] for each in lines if "gone" in each] == ["R2"]
        assert len(lines) < 6, "a line for each change, and not for each port"
        assert unreachable(ring) == ["h2"]
        status, reasons = monitor.health()
        assert (status, reasons["switches"], reasons["hosts"]) == ("degraded", "gone: R2", "not reached: h2")
        told = monitor.metrics()
        assert 'pleroma_switch_ready{switch="R2"} 0.0' in told
        assert "pleroma_hosts_unreachable 1.0" in told
        ring.until_right(RING.without(switches=["R2"]))
        there = [(host, event) for host, event in some_events(ring) if host != "h2"]
        found, expected, must = ring.publish(*there)
        assert found == expected
        assert {place for place in must if place[0] != "h2"} <= set(found)
        ring.submit(subscribe("h2", "wind < 40"))  # accepted all the same
        ring.lab.restore_bridge("R2")
        ring.until_right()
        assert unreachable(ring) == []
        monitor.until_told(("switch", "R2", "returned"), ("host", "h2", "reachable"))
        wait_until(lambda: monitor.health() == ("ok", {}), monitor.health)
        assert ring.check(*some_events(ring))
        carried = re.compile(r"^pleroma_link_bytes_total{.*} [1-9]", re.MULTILINE)
        wait_until(lambda: carried.search(monitor.metrics()), "switches tell what their links have carried")


def test_all_switches_lose_their_power_and_have_all_rules_again_soon_after(ring):
    ring.lab.kill_switches()
    wait_until(lambda: all(each.state in ("away", "gone") for each in ring.status.values()), "it is noticed")
    ring.lab.start_switches()
    ring.until_right()
    assert ring.check(*some_events(ring))


# -- connections -----------------------------------------------------------------------------------------------------


@contextmanager
def stalled(processes):
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def relay(made):
    return registry.marked(made.lab.name, "controller_proxy.py")


def test_switches_that_cannot_be_reached_go_on_forwarding_and_are_brought_up_to_date_later(line):
    with stalled(relay(line)):  # the connections stay open, and nothing comes
        assert line.check(*some_events(line))
        wait_until(lambda: all(each.state == "gone" for each in line.status.values()), lambda: line.status)
        assert unreachable(line) == ["h1", "h2", "h3"]
        (answer,) = line.submit(subscribe("h3", "wind < 40"))  # nobody is there to wait for
        assert answer["id"] in line.controller.state.registrations
    line.until_right()
    assert unreachable(line) == []
    assert line.check(*some_events(line))


def test_a_request_whose_outcome_is_unknown_is_settled_from_what_the_switch_has(tmp_path):
    with world(LINE, tmp_path, timeouts=SwitchTimeouts(answer=0.5, audit=60, grace=60, dead=60)) as made:
        populate(made)
        with stalled([int((made.lab.folder / "switches.pid").read_text())]):
            waiting = made.begin(subscribe("h3", "wind < 40"))
            wait_until(lambda: any("reading" in each.state for each in made.status.values()), lambda: made.status)
            assert not waiting[0].done()
        made.finish(waiting)
        made.until_right()
        assert sum(each.counts.silent for each in made.status.values()) > 0
        assert made.check(*some_events(made))


# -- rules -----------------------------------------------------------------------------------------------------------


def first_rule(made, switch):
    line = made.switches.lines(switch, 1)[0]
    return f"table=1,priority={line.priority},udp6,ipv6_dst={line.destination}"


def test_a_rule_deleted_by_hand_comes_back(line):
    before = line.status["R2"].counts.repaired
    line.lab.ofctl("R2", "del-flows", "--strict", first_rule(line, "R2"))
    wait_until(lambda: line.status["R2"].counts.repaired > before, "the audit finds it")
    line.until_right()
    assert line.check(*some_events(line))


def test_a_rule_changed_by_hand_is_put_right(line):
    before = line.status["R2"].counts.repaired
    line.lab.ofctl("R2", "mod-flows", "--strict", f"{first_rule(line, 'R2')},actions=drop")
    wait_until(lambda: line.status["R2"].counts.repaired > before, "the audit finds it")
    wait_until(lambda: all(each.actions != "drop" for each in line.switches.lines("R2", 1)), "the rule is put right")
    line.until_right()
    assert line.check(*some_events(line))


def test_a_rule_under_our_cookie_that_we_never_made_is_removed(line):
    ours = line.switches.lines("R2", 1)[0].cookie
    line.lab.ofctl("R2", "add-flow", f"table=1,priority=5000,cookie={ours},udp6,udp_dst=17470,actions=drop")
    wait_until(lambda: all(each.priority < 5000 for each in line.switches.lines("R2", 1)), "it is gone")
    line.until_right()
    assert line.check(*some_events(line))


def test_rules_of_somebody_else_are_left_alone_whatever_happens_to_ours(line):
    def foreign():
        return [text for text in line.lab.flows("R2") if "cookie=0x77," in text]

    line.lab.ofctl("R2", "add-flow", "table=0,priority=7,cookie=0x77,arp,actions=NORMAL")
    line.lab.ofctl("R2", "add-flow", "table=1,priority=1,cookie=0x77,udp6,ipv6_dst=ff0e:4242::/32,actions=drop")
    line.withdraw(*line.controller.state.registrations)
    line.until_right()
    assert not any(line.switches.tables.values())
    with capture_logs() as lines:
        line.stop()
    assert lines == [], "who stops has lost nothing"
    line.start()
    line.until_right()
    assert len(foreign()) == 2


# -- room ------------------------------------------------------------------------------------------------------------


def test_a_switch_without_room_has_coarser_rules_and_nothing_is_missing(tmp_path):
    small = replace(LINE, limits={"R2": 12})
    with world(LINE, tmp_path, real=small, timeouts=HASTY) as made:
        made.submit(*(advertise(host, "true") for host in ("h1", "h2", "h3")))
        draw = Random(5)
        commands = [subscribe(f"h{1 + n % 3}", random_filter(draw)) for n in range(30)]
        made.submit(*commands, patient=True)
        wait_until(
            lambda: made.controller.network_failure is None and made.controller.installed == made.controller.position,
            lambda: made.status,
        )
        assert made.network.limits == {"R2": 12}
        made.until_right()
        assert len(made.switches.table("R2")) <= 12 < len(made.switches.table("R1"))
        assert made.check(*some_events(made, 150))
        made.stop()
        made.start()  # and comes to the same again
        made.until_right()
        assert made.network.limits == {"R2": 12}

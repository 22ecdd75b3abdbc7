"""Several trees on real switches, publishers' own and balanced ones, while cables fail and the controller restarts."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from pleroma.control.state.command import ChooseTrees
from pleroma.errors import DiskFull
from pleroma.index import DzSet
from pleroma.routing import build
from support.network.weather_requests import BEGINNING, advertise, random_event, random_filter, subscribe
from support.network.world import HASTY, world
from support.small_disk import free_bytes, small_disk
from support.waiting import wait_until

RING = build("ring:4")
SEVERAL = ("forest", "balanced")
HOSTS = [host.name for host in RING.hosts]
QUARTERS = ("temperature < -5", "temperature between -5 and 10", "temperature between 10 and 25", "temperature >= 25")


def begin(trees):
    return (BEGINNING[0], BEGINNING[1], ChooseTrees(trees))


def populate(made, seed=1, subscriptions=12):
    """Every host publishes some temperatures, and wants a few things."""
    draw = Random(seed)
    made.submit(*(advertise(host, text) for host, text in zip(HOSTS, QUARTERS, strict=True)))
    made.submit(*(subscribe(HOSTS[n % 4], random_filter(draw)) for n in range(subscriptions)))


def events(made, count=60, seed=2):
    """Events from hosts that publish such."""
    draw, found = Random(seed), []
    registered = made.controller.state.registrations.values()
    offers = [(each.host, each.filter) for each in registered if each.kind == "advertisement"]
    while len(found) < count:
        event = random_event(draw)
        found += [(host, event) for host, offer in offers if offer.matches(event)][:1]
    return found


def families(made):
    return [(family.region, family.tree.links) for family in made.controller.state.router.families]


def rules_within(made, region):
    """The rules on all switches that lie in a region."""
    tables = made.switches.tables
    return {switch: {flow for flow in table if region.covers(flow.dz)} for switch, table in tables.items()}


def changes(made):
    return [each.counts.changed for each in made.status.values()]


def used_families(made):
    """The families that have rules, which are those that a schema is on."""
    prefix = DzSet([made.controller.state.schemas["weather"].prefix])
    return [family for family in made.controller.state.router.families if family.region & prefix]


@pytest.mark.parametrize("trees", SEVERAL)
def test_on_several_trees_every_event_comes_once_and_a_cut_cable_concerns_only_trees_that_have_it(tmp_path, trees):
    with world(RING, tmp_path, begin=begin(trees)) as made:
        populate(made)
        made.until_right()
        assert made.check(*events(made))
        before = used_families(made)
        assert len({family.tree.links for family in before}) > 1
        link = next(link for link in RING.links if sum(link in each.tree.links for each in before) < len(before))
        spared = [family for family in before if link not in family.tree.links]
        rules = [rules_within(made, family.region) for family in spared]
        assert any(map(any, (each.values() for each in rules)))
        made.lab.cut(link)
        made.until_right(RING.without(links=[link]))
        now = used_families(made)
        assert [family.region for family in now] == [family.region for family in before]
        assert all(link not in family.tree.links for family in now)
        assert [each.tree.links for each in now if each.region in [f.region for f in spared]] == [
            family.tree.links for family in spared
        ]
        assert [rules_within(made, family.region) for family in spared] == rules
        assert made.check(*events(made, 30, 3))

        held, tables = families(made), made.switches.tables
        made.stop()
        made.start()  # the cable is still cut
        made.until_right(RING.without(links=[link]))
        assert families(made) == held
        assert made.switches.tables == tables
        assert changes(made) == [0] * 4
        assert made.check(*events(made, 30, 4))

        made.lab.mend(link)
        made.until_right()
        assert made.switches.tables == tables  # trees stay where they are
        assert made.check(*events(made, 30, 5))


@pytest.mark.parametrize("trees", SEVERAL)
def test_events_on_other_trees_do_not_notice_that_a_cable_fails_and_comes_back(tmp_path, trees):
    with world(RING, tmp_path, begin=begin(trees)) as made:
        made.submit(*(advertise(host, text) for host, text in zip(HOSTS, QUARTERS, strict=True)))
        made.submit(*(subscribe(host, "true") for host in HOSTS))
        made.until_right()
        host, event = events(made, 1)[0]
        (mine,) = [each for each in used_families(made) if each.region.covers(made.mirror.dz(event))]
        link = next(link for link in RING.links if link not in mine.tree.links)
        assert any(link in each.tree.links for each in used_families(made))
        stream = made.stream(host, event)
        stream.start()
        try:
            for _ in range(2):
                stream.go_on(50)
                made.lab.cut(link)
                made.until_right(RING.without(links=[link]))
                stream.go_on(50)
                made.lab.mend(link)
                made.until_right()
        finally:
            stream.end()
        expected = Counter((other, payload) for other in HOSTS if other != host for payload in stream.payloads)
        assert made.hosts.gather(expected) == expected


def test_a_controller_that_was_cut_off_from_all_switches_deletes_no_rule_when_they_are_back(tmp_path):
    with world(RING, tmp_path, timeouts=HASTY, begin=begin("forest")) as made:
        populate(made)
        made.until_right()
        held, tables, before = families(made), made.switches.tables, changes(made)
        host, event, wanting = next(
            (host, event, receivers)
            for host, event in events(made)
            if (receivers := made.mirror.receivers(host, event))
        )
        stream = made.stream(host, event)
        stream.start()
        try:
            stream.go_on(50)
            made.lab.set_controller("tcp:127.0.0.1:1")  # nobody is there
            wait_until(lambda: all(each.state == "gone" for each in made.status.values()), "all count as gone")
            stream.go_on(50)
            made.lab.set_controller(f"tcp:127.0.0.1:{made.network.address[1]}")
            made.until_right()
        finally:
            stream.end()
        assert (families(made), made.switches.tables, changes(made)) == (held, tables, before)
        expected = Counter((other, payload) for other in wanting for payload in stream.payloads)
        assert made.hosts.gather(expected) == expected
        assert made.controller.state.there.absent == ()


@pytest.mark.parametrize("trees", SEVERAL)
def test_tables_with_little_room_keep_their_limits_on_several_trees(tmp_path, trees):
    limited = RING.with_limit(12)
    with world(limited, tmp_path, begin=begin(trees)) as made:
        populate(made, subscriptions=24)
        made.until_right()
        assert made.controller.state.router.coarsened
        assert all(len(table) <= 12 for table in made.switches.tables.values())
        assert made.check(*events(made))


@pytest.mark.parametrize("trees", SEVERAL)
def test_a_switch_that_turns_out_to_have_little_room_gets_coarser_rules_tree_by_tree(tmp_path, trees):
    with world(RING, tmp_path, real=replace(RING, limits={"R2": 16}), timeouts=HASTY, begin=begin(trees)) as made:
        draw = Random(1)
        for host, text in zip(HOSTS, QUARTERS, strict=True):
            made.submit(advertise(host, text), patient=True)
        for number in range(24):
            made.submit(subscribe(HOSTS[number % 4], random_filter(draw)), patient=True)
        made.until_right()
        assert made.network.limits.keys() == {"R2"}
        assert "R2" in made.controller.state.router.coarsened
        assert len(made.switches.table("R2")) <= 16
        wait_until(lambda: made.controller.network_failure is None, lambda: made.controller.network_failure)
        assert made.check(*events(made))
        tables = made.switches.tables
        made.stop()
        made.start()
        made.until_right()
        assert made.switches.tables == tables  # the room is in the log


def test_where_a_switch_has_room_for_fewer_rules_than_there_are_trees_all_events_go_on_one(tmp_path):
    with world(RING, tmp_path, real=replace(RING, limits={"R2": 2}), timeouts=HASTY, begin=begin("forest")) as made:
        made.submit(*(advertise(host, text) for host, text in zip(HOSTS, QUARTERS, strict=True)))
        made.submit(*(subscribe(host, "true") for host in HOSTS), patient=True)
        wait_until(lambda: made.network.limits == {"R2": 2}, lambda: made.network.limits)
        wait_until(lambda: made.controller.network_failure is None, lambda: made.controller.network_failure)
        made.until_right()
        assert len(used_families(made)) == 1
        assert made.check(*events(made))


def test_events_go_round_a_cut_cable_though_the_disk_is_full_and_the_log_knows_of_it_later(tmp_path):
    with small_disk(tmp_path / "disk", 2) as disk, world(RING, disk, begin=begin("forest")) as made:
        populate(made)
        made.until_right()
        ballast, position = disk / "ballast", made.controller.position
        ballast.write_bytes(bytes(free_bytes(disk)))
        link = next(link for link in used_families(made)[0].tree.links)
        made.lab.cut(link)
        made.until_right(RING.without(links=[link]))
        assert made.controller.position == position  # nothing could be written
        assert made.check(*events(made, 30))
        with pytest.raises(DiskFull):
            made.run(made.controller.submit(subscribe("h1", "wind < 3")))
        ballast.unlink()
        made.run(made.controller.submit(subscribe("h1", "wind < 3")))
        held = families(made)
        made.stop()
        made.start()
        made.until_right(RING.without(links=[link]))
        assert (families(made), changes(made)) == (held, [0] * 4)

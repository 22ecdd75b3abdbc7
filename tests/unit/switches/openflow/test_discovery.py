"""Frames between switch and controller, and finding out how switches are joined."""

import asyncio
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.routing import Host, Link, Topology, build
from pleroma.switches.openflow import beacons as beacons_module
from pleroma.switches.openflow.beacons import UNHEARD_SECONDS, Beacons
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.frames import Beacon, Datagram

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.mark.parametrize(("source", "destination"), [("fd00::1", "ff05::706c"), ("10.0.0.1", "239.255.112.108")])
@pytest.mark.parametrize("payload", [b"x", b"hello" * 100])
def test_a_datagram_survives_its_frame(source, destination, payload):
    sent = Datagram(
        "02:00:00:00:00:01", "33:33:00:00:70:6c", (ip_address(source), 5), (ip_address(destination), 17471), payload
    )
    assert Datagram.unpack(sent.pack()) == sent


@given(st.binary(max_size=120), st.integers(0, 119), st.integers(0, 255))
def test_whatever_a_frame_holds_it_is_read_or_passed_over(noise, place, value):
    good = bytearray(
        Datagram(
            "02:00:00:00:00:01", "02:00:00:00:00:02", (ip_address("fd00::1"), 1), (ip_address("fd00::2"), 2), b"payload"
        ).pack()
    )
    good[place % len(good)] = value
    for frame in (noise, bytes(good), bytes(good[:place]), Beacon(1, 2, "d").pack(KEY)[:place]):
        assert Datagram.unpack(frame) is None or isinstance(Datagram.unpack(frame), Datagram)
        read = Beacon.unpack(frame, KEY)
        assert read is None or isinstance(read[0], Beacon)


@given(st.integers(1, 2**64 - 1), st.integers(1, 0xFFFFFF00), st.text(max_size=20))
def test_a_beacon_is_known_by_its_signature(datapath, port, domain):
    beacon = Beacon(datapath, port, domain)
    assert Beacon.unpack(beacon.pack(KEY), KEY) == (beacon, True)
    assert Beacon.unpack(beacon.pack(OTHER_KEY), KEY) == (beacon, False)


class TestWiring:
    def test_a_file_s_network_takes_no_strangers(self):
        discovered = DiscoveredTopology(build("line:2"))
        assert discovered.switch(2) == "R2"
        assert discovered.switch(9) is None
        assert not discovered.joined(("R1", 7), ("R2", 7))
        assert discovered.topology == build("line:2")

    def test_switches_and_links_join_a_network_that_discovers(self):
        discovered = DiscoveredTopology(discovers=True)
        assert [discovered.switch(number) for number in (0x2A, 7, 0x2A)] == ["s2a", "s7", "s2a"]
        assert discovered.joined(("s2a", 1), ("s7", 3))
        assert not discovered.joined(("s7", 3), ("s2a", 1))  # the same, heard at the other end
        assert discovered.topology.links == (Link("s2a", 1, "s7", 3),)
        assert discovered.topology.datapath == {"s2a": 0x2A, "s7": 7}

    def test_a_cable_that_is_moved_takes_the_old_link_with_it(self):
        discovered = DiscoveredTopology(discovers=True)
        for number in (1, 2, 3):
            discovered.switch(number)
        discovered.joined(("s1", 1), ("s2", 1))
        discovered.joined(("s1", 2), ("s3", 2))
        discovered.joined(("s1", 1), ("s3", 1))
        assert set(discovered.topology.links) == {Link("s1", 2, "s3", 2), Link("s1", 1, "s3", 1)}

    def test_hosts_are_where_no_link_is(self):
        discovered = DiscoveredTopology(Topology(("A", "B"), (), (Link("A", 1, "B", 1),)))
        hosts = [Host("h1", "A", 2, "fd00::1"), Host("h2", "A", 1, "fd00::2"), Host("h3", "C", 2, "fd00::3")]
        found = discovered.with_hosts(hosts, {"A": 50})
        assert [host.name for host in found.hosts] == ["h1"]
        assert found.limits == {"A": 50}

    def test_what_a_switch_turned_out_to_hold_only_lowers_a_limit(self):
        discovered = DiscoveredTopology(Topology(("A", "B"), (), (), {"A": 10}))
        assert discovered.with_hosts((), {"A": 20, "B": 5}).limits == {"A": 10, "B": 5}


@pytest.mark.parametrize("discovers", [True, False])
def test_beacons_are_sent_round_after_round_where_links_are_to_be_found(monkeypatch, discovers):
    monkeypatch.setattr(beacons_module, "BEACON_SECONDS", 0.01)

    async def work():
        sent, told = [], []
        discovered = DiscoveredTopology(discovers=discovers)
        beacons = Beacons(
            discovered,
            lambda make: sent.append(Beacon.unpack(make(7, 3), KEY)),
            lambda _: True,
            lambda: told.append(1),
            KEY,
            "here",
        )
        if discovers:
            for number in (1, 2):
                discovered.switch(number)
            assert beacons.hear(("s2", 4), Beacon(1, 3, "here").pack(KEY))
            monkeypatch.setattr(beacons_module, "UNHEARD_SECONDS", 0.05)
        beacons.start()
        if discovers:
            async with asyncio.timeout(20):
                while len(sent) < 3 or not beacons.unheard:
                    await asyncio.sleep(0.005)
        else:
            await asyncio.sleep(0.05)
        beacons.stop()
        assert bool(sent) == discovers
        assert all(is_ours and (read.datapath, read.port) == (7, 3) for read, is_ours in sent)
        assert len(told) == (2 if discovers else 0), "a link was found, and is unheard"

    asyncio.run(work())


class TestBeacons:
    def scenario(self, work, connected=("s1", "s2")):
        async def limited():
            told = []
            discovered = DiscoveredTopology(discovers=True)
            for number in (1, 2):
                discovered.switch(number)
            beacons = Beacons(
                discovered, lambda _: None, lambda switch: switch in connected, lambda: told.append(1), KEY, "here"
            )
            await work(beacons, discovered, told)

        asyncio.run(limited())

    def test_a_link_is_not_down_because_the_controller_is_cut_off_from_its_switches(self, monkeypatch):
        connected = ["s1", "s2"]

        async def work(beacons, _discovered, told):
            now = 1000.0
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
            beacons.hear(("s2", 4), Beacon(1, 3, "here").pack(KEY))
            told.clear()
            connected.remove("s2")
            for _ in range(10):
                now += UNHEARD_SECONDS / 3
                beacons._review()
            connected.append("s2")
            now += UNHEARD_SECONDS / 3
            beacons._review()
            assert (beacons.unheard, told) == (frozenset(), [])
            now += UNHEARD_SECONDS
            beacons._review()
            assert (beacons.unheard, len(told)) == ({("s1", 3), ("s2", 4)}, 1)

        self.scenario(work, connected)

    def test_a_link_that_an_earlier_run_knew_is_as_it_was_until_it_is_heard_or_falls_silent(self, monkeypatch):
        async def work(beacons, discovered, told):
            now = 1000.0
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
            discovered.joined(("s1", 3), ("s2", 4))
            discovered.joined(("s1", 5), ("s2", 6))
            beacons.resume({("s1", 5), ("s2", 6), ("s1", 3)})
            silent = {("s1", 5), ("s2", 6)}
            beacons._review()
            assert (beacons.unheard, told) == (silent, [])
            beacons.hear(("s2", 6), Beacon(1, 5, "here").pack(KEY))
            assert beacons.unheard == silent
            beacons.hear(("s1", 5), Beacon(2, 6, "here").pack(KEY))
            assert beacons.unheard == frozenset()
            now += UNHEARD_SECONDS
            beacons._review()
            assert {("s1", 3), ("s2", 4)} <= beacons.unheard

        self.scenario(work)

    def test_a_network_that_was_described_listens_for_no_beacons_after_a_restart_either(self):
        described = DiscoveredTopology(Topology(("A", "B"), (), (Link("A", 1, "B", 1),)))
        beacons = Beacons(described, lambda _: None, lambda _: True, lambda: None, KEY, "here")
        beacons.resume({("A", 1), ("B", 1)})
        assert beacons.unheard == frozenset()

    def test_where_a_beacon_comes_in_there_is_a_link(self):
        async def work(beacons, discovered, told):
            assert beacons.hear(("s2", 4), Beacon(1, 3, "here").pack(KEY))
            assert discovered.topology.links == (Link("s1", 3, "s2", 4),)
            assert told
            assert not beacons.hear(("s2", 4), b"anything else")

        self.scenario(work)

    def test_nobody_can_invent_a_link(self):
        async def work(beacons, discovered, told):
            assert beacons.hear(("s2", 4), Beacon(1, 3, "here").pack(OTHER_KEY))
            assert discovered.topology.links == ()
            assert discovered.borders == {}
            assert not told

        self.scenario(work)

    def test_the_beacon_of_another_domain_marks_a_border(self):
        async def work(beacons, discovered, _told):
            beacons.hear(("s2", 4), Beacon(99, 3, "there").pack(OTHER_KEY))
            assert discovered.borders == {("s2", 4): "there"}
            assert discovered.topology.links == ()

        self.scenario(work)

    def test_a_link_that_falls_silent_is_down_and_comes_back_when_it_is_heard(self, monkeypatch):
        async def work(beacons, discovered, told):
            now = 1000.0
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
            frame = Beacon(1, 3, "here").pack(KEY)
            beacons.hear(("s2", 4), frame)
            beacons._review()
            assert beacons.unheard == frozenset()
            now += UNHEARD_SECONDS
            beacons._review()
            assert beacons.unheard == {("s1", 3), ("s2", 4)}
            assert discovered.topology.links  # the port is still no host's
            count = len(told)
            beacons.hear(("s2", 4), frame)
            assert beacons.unheard  # what goes one way may not go the other
            beacons.hear(("s1", 3), Beacon(2, 4, "here").pack(KEY))
            assert beacons.unheard == frozenset()
            assert len(told) > count

        self.scenario(work)

    def test_a_host_that_sends_beacons_back_makes_no_link(self):
        async def work(beacons, discovered, told):
            for port in (3, 4):
                assert beacons.hear(("s1", port), Beacon(1, 3, "here").pack(KEY))
            assert discovered.topology.links == ()
            assert not told

        self.scenario(work)

    def test_a_link_that_carries_only_one_way_carries_nothing(self, monkeypatch):
        async def work(beacons, discovered, _told):
            now = 1000.0
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
            for _ in range(3):
                beacons.hear(("s2", 4), Beacon(1, 3, "here").pack(KEY))
                beacons._review()
                now += UNHEARD_SECONDS / 2
            assert discovered.topology.links
            assert beacons.unheard == {("s1", 3), ("s2", 4)}

        self.scenario(work)

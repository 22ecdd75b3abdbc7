"""Whom a network of switches tells what: a watcher, for as long as there is one."""

import asyncio
import struct
from contextlib import asynccontextmanager

import pytest

from pleroma.errors import SwitchRefused
from pleroma.index import Dz
from pleroma.routing import Change, Flow, FlowOp, Output, Presence, Topology, build
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.openflow_network import Arrival, OpenFlowNetwork
from support.openflow_switch import PATIENCE, ScriptedSwitch, plain

LINE = build("line:1")


class Watcher:
    def __init__(self):
        self.rewired = 0
        self.arrivals = []

    async def rewire(self):
        self.rewired += 1

    def packet_arrived(self, arrival):
        self.arrivals.append(arrival)


@asynccontextmanager
async def network(
    topology: Topology = LINE, local: tuple[int, str, int, int] | None = None, grace: float = 5.0, datapath: int = 1
):
    timeouts = SwitchTimeouts(grace=grace)
    async with OpenFlowNetwork(DiscoveredTopology(topology), listen=("127.0.0.1", 0), timeouts=timeouts) as made:
        switch = ScriptedSwitch(datapath=datapath)
        switch.ports += [local] if local else []
        await switch.connect(made.address)
        try:
            yield made, switch
        finally:
            await switch.disconnect()


async def until(true):
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


def packet_in(port, frame):
    match = struct.pack("!HHII4x", 1, 12, 0x80000004, port)
    return plain(5, 10, 0, struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, 0, 0) + match + b"\0\0" + frame)


def test_a_watcher_hears_of_switches_ports_and_packets():
    async def work():
        async with network() as (made, switch):
            watcher = Watcher()
            with made.watched_by(watcher):
                await made.install([])
                await until(lambda: watcher.rewired == 1)  # the switch is ready
                assert made.status()["R1"].state == "ready"
                switch.write(packet_in(3, b"frame"))
                await until(lambda: watcher.arrivals)
                assert watcher.arrivals == [Arrival("R1", 3, b"frame")]
                switch.port_status(2, 1, "eth1", 0, 1)
                await until(lambda: watcher.rewired == 2)
                assert ("R1", 1) in made.presence.down
            switch.write(packet_in(3, b"more"))
            switch.port_status(2, 1, "eth1", 0, 0)
            await until(lambda: ("R1", 1) not in made.presence.down)
            await asyncio.sleep(0.1)  # longer than the network takes to tell
            assert (watcher.rewired, len(watcher.arrivals)) == (2, 1)

    asyncio.run(work())


def test_a_switch_that_leaves_before_it_is_greeted_is_not_there():
    async def work():
        async with network() as (made, switch):
            await switch.saw(18)  # it was asked for its ports: next it waits for the first installation
            await switch.disconnect()
            await until(lambda: not made._listener.connections or all(c.closed for c in made._listener.connections))
            installing = asyncio.create_task(made.install([]))
            await until(lambda: not made._listener.connections)
            assert made.status()["R1"].peer is None
            assert made.presence == Presence(set(), set())  # it has its grace
            installing.cancel()

    asyncio.run(work())


def test_the_port_of_a_switch_to_itself_is_no_place_of_the_network_even_if_it_is_down():
    async def work():
        async with network(local=(0xFFFFFFFE, "local", 1, 0)) as (made, _):
            await made.install([])
            await until(lambda: made.status()["R1"].state == "ready")
            assert {port for _, port in made.presence.down} == {2, 3}

    asyncio.run(work())


def adding(bits):
    return FlowOp("R1", Change.ADD, Flow(Dz.parse(bits), (Output(1),)))


def test_a_switch_that_is_lost_is_away_then_gone_and_told_of_before_it_is_served_again():
    async def work():
        async with network(grace=1.0) as (made, switch):
            watcher, states = Watcher(), []
            watcher.rewire = rewire = AsyncRecorder(lambda: states.append(made.status()["R1"].state))
            with made.watched_by(watcher):
                await made.install([adding("0")])
                await until(lambda: rewire.count)
                await switch.disconnect()
                await until(lambda: made.status()["R1"].state == "away")
                assert (made.is_cut_off, made.presence.absent) == (True, frozenset())
                await until(lambda: made.presence.absent == {"R1"})
                assert made.status()["R1"].state == "gone"
                await asyncio.wait_for(made.install([adding("1")]), PATIENCE)  # nobody waits for it
                again = ScriptedSwitch(datapath=1)
                await again.connect(made.address)
                await until(lambda: made.status()["R1"].state == "ready")
                assert states[-1] != "gone"
                assert made.presence.absent == frozenset()
                await again.disconnect()

    asyncio.run(work())


class AsyncRecorder:
    """Counts how often it was awaited, and notes something each time."""

    def __init__(self, note):
        self.note, self.count = note, 0

    async def __call__(self):
        self.note()
        self.count += 1


def test_a_switch_that_comes_in_time_stays_and_one_that_does_not_is_told_of_as_gone():
    async def work():
        async with network(build("line:2"), grace=1.0) as (made, _):
            watcher = Watcher()
            with made.watched_by(watcher):
                await made.install([])
                await until(lambda: made.presence.absent)
                told = watcher.rewired
                await until(lambda: watcher.rewired > told)
                assert made.presence.absent == {"R2"}

    asyncio.run(work())


def test_a_switch_without_room_is_told_of_with_the_room_that_it_has():
    async def work():
        async with network() as (made, switch):
            watcher = Watcher()
            with made.watched_by(watcher):
                await made.install([adding("0")])
                await until(lambda: watcher.rewired == 1)
                switch.refuse = dict.fromkeys(range(100), (5, 1))
                with pytest.raises(SwitchRefused):
                    await made.install([adding("1")])
                await until(lambda: watcher.rewired > 1)
                assert made.limits == {"R1": 1}

    asyncio.run(work())


def test_where_links_are_to_be_found_switches_are_sent_beacons():
    async def work():
        discovered = DiscoveredTopology(discovers=True)
        async with OpenFlowNetwork(discovered, listen=("127.0.0.1", 0)) as made:
            switch = ScriptedSwitch(datapath=1)
            await switch.connect(made.address)
            await made.install([])
            await switch.saw(13)
            await switch.disconnect()

    asyncio.run(work())


def test_only_the_first_installation_goes_on_when_a_switch_refuses_a_rule():
    async def work():
        async with network() as (made, switch):
            switch.refuse = dict.fromkeys(range(100), (5, 0))
            await made.install([adding("0")])
            (refusal,) = made.status()["R1"].refused
            assert "refuses" in refusal
            with pytest.raises(SwitchRefused):
                await made.install([adding("1")])

    asyncio.run(work())


def test_a_switch_that_the_topology_does_not_have_is_turned_away_and_remembered():
    async def work():
        async with network(datapath=9) as (made, switch):
            installing = asyncio.create_task(made.install([]))
            await until(lambda: made.strangers)
            await asyncio.wait_for(switch.closed.wait(), PATIENCE)
            assert list(made.strangers) == [9]
            assert made.is_cut_off
            installing.cancel()

    asyncio.run(work())


def test_a_switch_that_was_absent_in_an_earlier_run_is_not_waited_for():
    async def work():
        made = OpenFlowNetwork(DiscoveredTopology(build("line:2")), listen=("127.0.0.1", 0))
        made.resume(Presence({"R1", "R2"}, {("R1", 1)}), {"R1": 7}, lambda: ())
        async with made:
            await asyncio.wait_for(made.install([adding("0")]), PATIENCE)
            assert made.presence == Presence({"R1", "R2"}, {("R1", 1)})
            assert made.limits == {"R1": 7}
            assert made.standing("R1", 1, Dz.parse("0")).confirmed is None

    asyncio.run(work())

"""A switch that is claimed obeys one controller, and the others find out that they were replaced."""

import asyncio
import struct
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import SwitchError, SwitchFenced, SwitchRefused, SwitchSilent
from pleroma.index import Dz
from pleroma.routing import Change, Flow, FlowOp, Output, build
from pleroma.switches.openflow import messages, replies
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.openflow.connection import ConnectionEvents
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.fence import MAX_GENERATION
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from pleroma.switches.openflow.rule import Match, Rule, RuleChange
from support.openflow_switch import PATIENCE, ScriptedSwitch, meeting, plain
from support.openflow_wire import PROTOCOLS, serialised, versions, xids
from support.waiting import run, until

ONE, TWO = build("line:1"), build("line:2")
VERSIONS = pytest.mark.parametrize("version", [4, 5])
SAYS_SO = pytest.mark.parametrize("says_so", [False, True])
ROLE_REQUEST, FLOW_STATISTICS, BUNDLE, PACKET_OUT = 24, 18, 33, 13


def adding(bits, switch="R1"):
    return FlowOp(switch, Change.ADD, Flow(Dz.parse(bits), (Output(1),)))


def some_changes(count=3):
    return [RuleChange(Change.ADD, Rule(0, number + 1, Match(), cookie=number)) for number in range(count)]


class Told(list):
    """Takes what a callback is called with."""

    def __call__(self, *about):
        self.append(about)


@asynccontextmanager
async def network(*switches, generation, told=None, topology=ONE, grace=5.0, answer=5.0):
    made = OpenFlowNetwork(
        DiscoveredTopology(topology),
        listen=("127.0.0.1", 0),
        timeouts=SwitchTimeouts(grace=grace, answer=answer),
        generation=generation,
        on_fenced=Told() if told is None else told,
    )
    async with made:
        try:
            for switch in switches:
                await switch.connect(made.address)
            yield made
        finally:
            for switch in switches:
                await switch.disconnect()


@given(versions, xids, st.integers(0, MAX_GENERATION))
def test_a_claim_has_the_bytes_of_the_standard(version, xid, generation):
    dp = PROTOCOLS[version]
    expected = serialised(dp.ofproto_parser.OFPRoleRequest(dp, dp.ofproto.OFPCR_ROLE_MASTER, generation), xid)
    assert messages.role_request(version, xid, generation) == expected


@pytest.mark.parametrize(("read", "whole"), [(replies.role, 24), (replies.role_status, 24)])
def test_a_role_that_is_cut_short_is_not_read(read, whole):
    assert read(plain(5, 25, 1, struct.pack("!I4xQ", 2, 9) + b"more")) == (2, 9)
    assert len(plain(5, 25, 1, bytes(16))) == whole
    with pytest.raises(SwitchError, match="too short"):
        read(plain(5, 25, 1, bytes(15)))


# a connection


@VERSIONS
def test_a_switch_that_is_claimed_goes_on_as_before(version):
    async def work():
        switch = ScriptedSwitch(version)
        async with meeting(switch) as (_, [connection]):
            await connection.claim(5, PATIENCE)
            assert (switch.is_claimed, switch.generation) == (True, 5)
            await connection.claim(5, PATIENCE)
            await connection.commit(some_changes(), PATIENCE)
            assert len(switch.committed) == 3

    run(work)


@VERSIONS
def test_a_claim_that_is_stale_fences_the_connection(version):
    async def work():
        switch, told = ScriptedSwitch(version), Told()
        switch.generation = 6
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            with pytest.raises(SwitchFenced, match="STALE") as fenced:
                await connection.claim(5, PATIENCE)
            assert told == [(connection, fenced.value)]
            assert connection.closed == fenced.value.reason
            assert (fenced.value.field, fenced.value.value) == ("switch", 7)
            for asked in (connection.commit(some_changes()), connection.barrier(), connection.wipe(1, 1)):
                with pytest.raises(SwitchFenced):
                    await asked

    run(work)


def test_a_switch_without_roles_refuses_the_claim_and_fences_nobody():
    async def work():
        switch, told = ScriptedSwitch(), Told()
        switch.silent.add(ROLE_REQUEST)
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            claiming = asyncio.create_task(connection.claim(5, PATIENCE))
            ((_, xid, _),) = await switch.saw(ROLE_REQUEST)
            switch.refuse_now(xid, 11, 1)
            with pytest.raises(SwitchRefused, match="UNSUP"):
                await claiming
            with pytest.raises(SwitchSilent, match="role"):
                await connection.claim(5, 0.05)
            assert (told, connection.closed) == ([], None)

    run(work)


@pytest.mark.parametrize("said", [(3, 5), (1, 5), (2, 4)])
def test_an_answer_that_is_not_what_was_asked_for_is_an_error(said):
    async def work():
        switch = ScriptedSwitch()
        switch.silent.add(ROLE_REQUEST)
        async with meeting(switch) as (_, [connection]):
            claiming = asyncio.create_task(connection.claim(5, PATIENCE))
            ((_, xid, _),) = await switch.saw(ROLE_REQUEST)
            switch.write(plain(5, 25, xid, struct.pack("!I4xQ", *said)))
            with pytest.raises(SwitchError, match=f"says role {said[0]} of {said[1]}"):
                await claiming

    run(work)


@VERSIONS
@SAYS_SO
def test_changes_that_a_switch_does_not_take_from_this_controller_are_no_failure_of_rules(version, says_so):
    async def work():
        switch, told = ScriptedSwitch(version), Told()
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            await connection.claim(5, PATIENCE)
            switch.obey_another(6, says_so=says_so)
            with pytest.raises(SwitchFenced, match="generation 6" if says_so else "IS_SLAVE"):
                await connection.commit(some_changes(), PATIENCE)
            assert len(told) == 1
            assert switch.committed == []

    run(work)


@pytest.mark.parametrize("at_commit", [False, True])
def test_a_bundle_of_which_a_part_was_taken_is_fenced_too(at_commit):
    async def work():
        switch, told = ScriptedSwitch(), Told()
        switch.refuse, switch.at_commit = {2: (1, 10)}, at_commit
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            await connection.claim(5, PATIENCE)
            with pytest.raises(SwitchFenced):
                await connection.commit(some_changes(), PATIENCE)
            assert (len(told), switch.committed) == (1, [])

    run(work)


def test_a_deletion_and_a_packet_fence_as_well():
    async def deletion():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            await connection.claim(5, PATIENCE)
            switch.obey_another(6, says_so=False)
            with pytest.raises(SwitchFenced):
                await connection.wipe(1, 1, PATIENCE)

    async def packet():
        switch, told = ScriptedSwitch(), Told()
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            await connection.claim(5, PATIENCE)
            switch.obey_another(6, says_so=False)
            connection.packet_out(1, b"frame")
            await until(lambda: told)

    run(deletion)
    run(packet)


def test_a_connection_that_nobody_claimed_is_not_fenced():
    async def work():
        switch, told = ScriptedSwitch(), Told()
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            switch.obey_another(6, says_so=True)
            with pytest.raises(SwitchRefused, match="IS_SLAVE"):
                await connection.commit(some_changes(), PATIENCE)
            assert (told, connection.closed) == ([], None)

    run(work)


def test_a_switch_that_says_again_that_this_controller_is_its_master_fences_nobody():
    async def work():
        switch, told = ScriptedSwitch(), Told()
        async with meeting(switch, events=ConnectionEvents(on_fenced=told)) as (_, [connection]):
            await connection.claim(5, PATIENCE)
            switch.write(plain(5, 30, 0, struct.pack("!IB3xQ", 2, 0, 5)))
            await connection.barrier(PATIENCE)
            assert (told, connection.closed) == ([], None)

    run(work)


# a network


def test_without_a_generation_no_switch_is_claimed():
    async def work():
        switch = ScriptedSwitch(datapath=1)
        async with network(switch, generation=None) as made:
            await made.install([adding("0")])
            assert not switch.is_claimed
            assert not [kind for kind, _, _ in switch.seen if kind == ROLE_REQUEST]
            assert not made.is_fenced
            assert made.status()["R1"].state == "ready"
            assert switch.committed

    run(work)


@pytest.mark.parametrize("generation", [0, 5, 2**63 - 1])
def test_a_switch_is_claimed_before_its_rules_are_read_or_changed(generation):
    async def work():
        switch = ScriptedSwitch(datapath=1)
        async with network(switch, generation=generation) as made:
            await made.install([adding("0")])
            kinds = [kind for kind, _, body in switch.seen if kind != FLOW_STATISTICS or body[:2] == b"\0\1"]
            assert switch.generation == generation
            assert kinds.index(ROLE_REQUEST) < kinds.index(FLOW_STATISTICS) < kinds.index(BUNDLE)

    run(work)


@pytest.mark.parametrize("generation", [-1, 2**63])
def test_a_generation_that_switches_cannot_compare_is_refused(generation):
    with pytest.raises(SwitchError, match="generation"):
        OpenFlowNetwork(DiscoveredTopology(ONE), generation=generation)


def test_a_controller_that_comes_back_too_late_touches_nothing_and_knows_it():
    async def work():
        switch, told = ScriptedSwitch(datapath=1), Told()
        switch.generation = 6
        async with network(switch, generation=5, told=told) as made:
            with pytest.raises(SwitchFenced, match="STALE"):
                await made.install([adding("0")])
            assert made.is_fenced
            await until(lambda: told)
            assert not [kind for kind, _, _ in switch.seen if kind in (BUNDLE, PACKET_OUT)]
            assert not switch.is_claimed
            for nothing_or_more in ([], [adding("1")], [adding("1", "R9")]):
                with pytest.raises(SwitchFenced):
                    await asyncio.wait_for(made.install(nothing_or_more), 1)
            again = ScriptedSwitch(datapath=1)
            await again.connect(made.address)
            await asyncio.wait_for(again.closed.wait(), PATIENCE)
            assert not again.is_claimed
            await again.disconnect()
            assert len(told) == 1

    run(work)


@SAYS_SO
def test_what_a_replaced_controller_waits_for_is_neither_confirmed_nor_refused(says_so):
    async def work():
        switch, told = ScriptedSwitch(datapath=1), Told()
        async with network(switch, generation=5, told=told, grace=0.1) as made:
            await made.install([adding("0")])
            before = len(switch.committed)
            switch.obey_another(6, says_so=says_so)
            with pytest.raises(SwitchFenced):
                await made.install([adding("1")])
            await until(lambda: told)
            await until(lambda: made.status()["R1"].state == "gone")
            with pytest.raises(SwitchFenced):  # although nobody waits for a switch that is gone
                await made.install([adding("1")])
            assert len(switch.committed) == before
            assert made.status()["R1"].refused == ()
            assert made.status()["R1"].counts.refusals == 0
            assert len(told) == 1

    run(work)


def test_one_switch_that_obeys_another_is_enough_to_leave_all_alone():
    async def work():
        first, second, told = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=2), Told()
        async with network(first, second, generation=5, told=told, topology=TWO) as made:
            await made.install([adding("0"), adding("0", "R2")])
            second.silent.add(BUNDLE)
            waiting = asyncio.create_task(made.install([adding("1", "R2")]))
            opened = len([kind for kind, _, _ in second.seen if kind == BUNDLE])
            await second.saw(BUNDLE, opened + 1)
            first.obey_another(6, says_so=True)
            with pytest.raises(SwitchFenced, match="generation 6"):
                await waiting
            await asyncio.wait_for(second.closed.wait(), PATIENCE)
            assert made.is_cut_off
            assert len(told) == 1
            assert not made.send("R2", 1, b"frame")

    run(work)


def test_however_many_switches_obey_another_it_is_told_once():
    async def work():
        switches, told = [ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=2)], Told()
        for switch in switches:
            switch.generation = 6
            switch.silent.add(ROLE_REQUEST)
        async with network(*switches, generation=5, told=told, topology=TWO) as made:
            installing = asyncio.create_task(made.install([adding("0")]))
            asked = [await switch.saw(ROLE_REQUEST) for switch in switches]
            for switch, ((_, xid, body),) in zip(switches, asked, strict=True):
                switch._claim(xid, *struct.unpack("!I4xQ", body))
            with pytest.raises(SwitchFenced):
                await installing
            for switch in switches:
                await asyncio.wait_for(switch.closed.wait(), PATIENCE)
            await until(lambda: told)
            assert len(told) == 1

    run(work)


def test_a_switch_whose_claim_is_answered_after_another_obeys_a_later_controller_is_left_alone():
    async def work():
        first, slow = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=2)
        slow.silent.add(ROLE_REQUEST)
        async with network(first, slow, generation=5, topology=TWO) as made:
            installing = asyncio.create_task(made.install([adding("0"), adding("0", "R2")]))
            ((_, xid, body),) = await slow.saw(ROLE_REQUEST)
            await until(lambda: made.status()["R1"].state == "ready")
            first.obey_another(6, says_so=True)
            with pytest.raises(SwitchFenced):
                await installing
            slow._claim(xid, *struct.unpack("!I4xQ", body))
            await asyncio.wait_for(slow.closed.wait(), PATIENCE)
            assert BUNDLE not in [kind for kind, _, _ in slow.seen]
            assert made.is_cut_off

    run(work)


def test_a_watcher_is_not_told_that_switches_are_gone_which_obey_another():
    class Watcher:
        rewired = 0

        async def rewire(self):
            self.rewired += 1

        def packet_arrived(self, arrival):
            raise AssertionError(arrival)

    async def work():
        switch, watcher = ScriptedSwitch(datapath=1), Watcher()
        async with network(switch, generation=5, grace=0.1) as made:
            with made.watched_by(watcher):
                await made.install([adding("0")])
                await until(lambda: watcher.rewired)
                before = watcher.rewired
                switch.obey_another(6, says_so=True)
                await until(lambda: made.status()["R1"].state == "gone")
                await asyncio.sleep(0.1)
                assert watcher.rewired == before

    run(work)


def test_a_switch_without_roles_is_turned_away_with_the_reason():
    async def work():
        switch = ScriptedSwitch(datapath=1)
        switch.silent.add(ROLE_REQUEST)
        async with network(switch, generation=5, grace=0.5) as made:
            installing = asyncio.create_task(made.install([adding("0")]))
            ((_, xid, _),) = await switch.saw(ROLE_REQUEST)
            switch.refuse_now(xid, 1, 1)
            await until(lambda: made.strangers)
            assert "cannot be claimed" in made.strangers[1]
            assert "BAD_TYPE" in made.strangers[1]
            await asyncio.wait_for(installing, PATIENCE)  # it counts as gone
            assert not made.is_fenced

    run(work)


def test_of_two_connections_under_one_number_only_one_is_claimed():
    """Else the switch would take the claim of the second for another controller, and this one would step down."""

    async def work():
        slow, second = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=1)
        slow.silent.add(ROLE_REQUEST)
        async with network(slow, generation=5) as made:
            installing = asyncio.create_task(made.install([adding("0")]))
            ((_, xid, body),) = await slow.saw(ROLE_REQUEST)
            await second.connect(made.address)
            await second.saw(FLOW_STATISTICS)  # its ports: it has shaken hands
            await asyncio.sleep(0.1)
            assert not second.is_claimed
            slow._claim(xid, *struct.unpack("!I4xQ", body))
            await asyncio.wait_for(installing, PATIENCE)
            await asyncio.wait_for(second.closed.wait(), PATIENCE)
            assert (slow.is_claimed, second.is_claimed, made.is_fenced) == (True, False, False)
            await second.disconnect()

    run(work)

import asyncio
import struct
from ipaddress import IPv6Network

import pytest
import uvloop

from pleroma.errors import SwitchError, SwitchGone, SwitchRefused, SwitchSilent
from pleroma.routing import Change
from pleroma.switches.openflow import requests as requests_module
from pleroma.switches.openflow.connection import ConnectionEvents
from pleroma.switches.openflow.flow_mod import flow_mod
from pleroma.switches.openflow.listener import SwitchListener
from pleroma.switches.openflow.messages import BUNDLE_COMMIT, BUNDLE_OPEN, PortInfo
from pleroma.switches.openflow.replies import ErrorMessage, ReplyPart
from pleroma.switches.openflow.requests import PendingRequests
from pleroma.switches.openflow.rule import CountedRule, Match, Rule, RuleChange, Send
from support.openflow_switch import PATIENCE, ScriptedSwitch, hello, meeting, plain
from support.openflow_wire import PROTOCOLS, stats_entry

VERSIONS = pytest.mark.parametrize("version", [4, 5])


def rule(number: int) -> Rule:
    return Rule(0, number + 1, Match(destination=IPv6Network((0xFF0E << 112, 16))), (Send(1),), cookie=number)


def adding(count: int) -> list[tuple[str, Rule]]:
    return [RuleChange(Change.ADD, rule(number)) for number in range(count)]


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def ended(connection) -> str:
    await until(lambda: connection.closed is not None)
    return connection.closed


# -- the handshake ---------------------------------------------------------------------------------------------------


@VERSIONS
def test_a_switch_is_introduced_with_its_ports(version):
    async def work():
        async with meeting(ScriptedSwitch(version, datapath=0xABC)) as (_, [connection]):
            assert (connection.version, connection.datapath) == (version, 0xABC)
            assert connection.ports == {
                1: PortInfo(1, "eth1", "02:00:00:00:00:01", True),
                2: PortInfo(2, "eth2", "02:00:00:00:00:02", False),
                3: PortInfo(3, "eth3", "02:00:00:00:00:03", False),
            }
            assert connection.peer.startswith("127.0.0.1:")

    asyncio.run(work())


def test_it_is_all_the_same_on_the_event_loop_that_the_service_has():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            await connection.commit(adding(3), PATIENCE)
            assert len(switch.committed) == 3
            connection.packet_out(1, b"frame")
            await switch.saw(13)
            switch.half_close()
            assert "closed the connection" in await ended(connection)

    uvloop.run(work())


@pytest.mark.parametrize(
    ("greeting", "version"),
    [(hello(6, 4, 5, 6), 5), (hello(6, 4, 6), 4), (hello(6), 5), (hello(4), 4), (hello(1, 1, 4), 4), (hello(5, 5), 5)],
)
def test_the_latest_version_that_both_speak_is_agreed_on(greeting, version):
    async def work():
        greeted: asyncio.Queue = asyncio.Queue()
        switch = ScriptedSwitch(version)
        async with SwitchListener(("127.0.0.1", 0), None, greeted.put) as listener:
            await switch.connect(listener.address, greeting)
            connection = await asyncio.wait_for(greeted.get(), PATIENCE)
            assert connection.version == version
            (_, _, body), *_ = await switch.saw(0)
            assert body == struct.pack("!HHI", 1, 8, 0b110000)
            await switch.disconnect()

    asyncio.run(work())


def test_a_second_hello_is_passed_over_whatever_its_version():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            switch.write(hello(4) + hello(6))
            await connection.barrier(PATIENCE)
            assert (connection.version, connection.closed) == (5, None)

    asyncio.run(work())


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_deletion_that_the_switch_refuses_is_an_error(is_refused):
    async def work():
        switch = ScriptedSwitch()
        switch.silent.add(20)
        async with meeting(switch) as (_, [connection]):
            wiping = asyncio.create_task(connection.wipe(1, 1, PATIENCE))
            ((_, deletion, _),) = await switch.saw(14)
            ((_, barrier, _),) = await switch.saw(20)
            if is_refused:
                switch.refuse_now(deletion, 5, 0)
            switch.write(plain(5, 21, barrier))
            if is_refused:
                with pytest.raises(SwitchRefused):
                    await wiping
            else:
                await wiping
            assert connection.closed is None

    asyncio.run(work())


def test_there_is_an_end_to_how_many_may_connect():
    async def scenario():
        async def greet(_):
            await asyncio.Event().wait()

        async with SwitchListener(("127.0.0.1", 0), None, greet, max_connections=2) as listener:
            opened = [await asyncio.open_connection(*listener.address) for _ in range(2)]
            late = await asyncio.open_connection(*listener.address)
            async with asyncio.timeout(10):
                while await late[0].read(1000):  # a hello may come before the end
                    pass
            assert len(listener.connections) == 2
            assert "no room" in listener.turned_away
            for _, writer in (*opened, late):
                writer.close()
                await writer.wait_closed()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (hello(1), "1.3 or 1.4 is needed"),
        (hello(6, 1, 6), "1.3 or 1.4 is needed"),
        (hello(3), "1.3 or 1.4 is needed"),
        (b"GET / HTTP/1.1\r\n\r\n", "not OpenFlow"),
        (plain(5, 6, 1, bytes(24)), "not with a hello"),
        (plain(5, 1, 1, struct.pack("!HH", 0, 0)), "OFPET_HELLO_FAILED OFPHFC_INCOMPATIBLE"),
        (plain(5, 0, 1, struct.pack("!HH", 1, 0)), "impossible length"),
        (struct.pack("!BBHI", 5, 0, 7, 1), "its header has 8"),
        (hello(5) + plain(4, 2, 1), "after agreeing on 5"),
    ],
)
def test_who_does_not_speak_our_language_is_turned_away_with_a_reason(greeting, reason):
    async def work():
        switch = ScriptedSwitch()
        switch.silent = set(range(40))
        async with SwitchListener(("127.0.0.1", 0), None, asyncio.sleep) as listener:
            await switch.connect(listener.address, greeting)
            await asyncio.wait_for(switch.closed.wait(), PATIENCE)
            await until(lambda: not listener.connections)
            assert reason in listener.turned_away
            await switch.disconnect()
            if "1.3 or 1.4" in reason:
                [(_, _, body)] = await switch.saw(1)
                assert body[:4] == struct.pack("!HH", 0, 0)

    asyncio.run(work())


def test_a_switch_that_says_hello_and_no_more_is_not_waited_for_forever():
    async def work():
        switch = ScriptedSwitch()
        switch.silent = {5}
        async with SwitchListener(("127.0.0.1", 0), None, asyncio.sleep, handshake=0.05) as listener:
            await switch.connect(listener.address)
            await asyncio.wait_for(switch.closed.wait(), PATIENCE)
            await switch.disconnect()
            await until(lambda: not listener.connections)
            assert "handshake" in listener.turned_away

    asyncio.run(work())


def test_connections_of_one_datapath_do_not_mix_their_answers():
    async def work():
        old, new = ScriptedSwitch(datapath=7), ScriptedSwitch(datapath=7)
        old.silent = {20}
        async with meeting(old, new) as (_, [first, second]):
            assert first.datapath == second.datapath
            waiting = asyncio.create_task(first.commit(adding(3), PATIENCE))
            await old.saw(20)
            await second.commit(adding(2), PATIENCE)
            assert not waiting.done()
            assert len(new.committed) == 2
            old.half_close()
            with pytest.raises(SwitchGone):
                await waiting
            assert second.closed is None
            assert not old.committed

    asyncio.run(work())


# -- bundles ---------------------------------------------------------------------------------------------------------


@VERSIONS
def test_a_bundle_is_committed_in_its_order(version):
    async def work():
        switch = ScriptedSwitch(version)
        async with meeting(switch) as (_, [connection]):
            changes = [*adding(250), RuleChange(Change.MODIFY, rule(3)), RuleChange(Change.DELETE, rule(4))]
            await connection.commit(changes, PATIENCE)
            bare = [message[:4] + bytes(4) + message[8:] for message in switch.committed]
            assert bare == [flow_mod(version, 0, change, each) for change, each in changes]

    asyncio.run(work())


@VERSIONS
@pytest.mark.parametrize("at_commit", [False, True])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_refused_change_fails_the_whole_bundle_and_is_named(version, at_commit, place):
    async def work():
        switch = ScriptedSwitch(version)
        switch.refuse, switch.at_commit = {place: (5, 1)}, at_commit
        async with meeting(switch) as (_, [connection]):
            with pytest.raises(SwitchRefused) as refused:
                await connection.commit(adding(12), PATIENCE)
            error = refused.value
            assert (error.index, error.value) == (place, rule(place))
            assert (error.kind, error.code) == ("OFPET_FLOW_MOD_FAILED", "OFPFMFC_TABLE_FULL")
            switch.refuse = {}
            await connection.commit(adding(2), PATIENCE)
            assert len(switch.committed) == 2
            assert not switch.staged

    asyncio.run(work())


def test_a_switch_that_refuses_a_change_and_commits_is_not_believed():
    async def work():
        switch = ScriptedSwitch()
        switch.silent.add(33)
        async with meeting(switch) as (_, [connection]):
            committing = asyncio.create_task(connection.commit(adding(2), PATIENCE))
            ((_, opening, _),) = await switch.saw(33)
            switch.write(plain(5, 33, opening, struct.pack("!IHH", 1, 1, 3)))
            _, (_, commit, _) = await switch.saw(33, 2)
            (_, first, _), _ = await switch.saw(34, 2)
            switch.refuse_now(first, 5, 1)
            switch.write(plain(5, 33, commit, struct.pack("!IHH", 1, 5, 3)))
            with pytest.raises(SwitchGone, match="committed a bundle although"):
                await committing
            assert "committed a bundle although" in connection.closed

    asyncio.run(work())


def test_numbers_of_messages_begin_anew_and_leave_out_zero():
    requests = PendingRequests(lambda _: None)
    assert [requests.number(), requests.number(3), requests.number()] == [1, 2, 5]
    requests.number(0xFFFFFFFF - 10)
    assert requests.number(100) == 1
    assert requests.number() == 101


def test_a_request_that_nobody_waits_for_any_more_is_forgotten():
    async def work():
        requests = PendingRequests(lambda _: None)
        waited, left = requests.barrier(), requests.barrier()
        waiting = asyncio.create_task(requests.answer(left))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        refusal = ErrorMessage(0, 1, 1, b"")
        assert [requests.refused(each.xid, refusal) for each in (waited, left)] == [True, False]

    asyncio.run(work())


def test_an_answer_in_parts_is_of_the_kind_that_was_asked_for_and_has_an_end(monkeypatch):
    async def work():
        requests = PendingRequests(lambda _: None)
        asked = requests.ask_for_parts(lambda *_: b"", 13, len)
        with pytest.raises(SwitchError, match="no answer"):
            requests.answered_in_part(asked.xid, ReplyPart(1, False, b""))
        monkeypatch.setattr(requests_module, "MAX_ANSWER_BYTES", 20)
        requests.answered_in_part(asked.xid, ReplyPart(13, True, bytes(12)))
        requests.answered_in_part(asked.xid, ReplyPart(13, True, bytes(8)))
        with pytest.raises(SwitchError, match="an answer of more than"):
            requests.answered_in_part(asked.xid, ReplyPart(13, True, bytes(1)))
        assert not asked.outcome.done()

    asyncio.run(work())


@pytest.mark.parametrize("disguise", ["version", "number", "both"])
def test_an_error_in_another_version_or_without_a_number_still_fails_the_bundle(disguise):
    async def work():
        switch = ScriptedSwitch(5)
        switch.refuse = {1: (5, 1)}
        if disguise != "number":
            switch.error_version = 1
        if disguise != "version":
            switch.error_xid = lambda _: 0
        async with meeting(switch) as (_, [connection]):
            with pytest.raises(SwitchRefused) as refused:
                await connection.commit(adding(3), PATIENCE)
            assert refused.value.index == 1
            # in OpenFlow 1.0, type 5 is something else
            assert refused.value.kind == ("OFPET_FLOW_MOD_FAILED" if disguise == "number" else "OFPET_QUEUE_OP_FAILED")
            assert not switch.committed

    asyncio.run(work())


def test_an_error_that_names_nothing_fails_the_bundle_under_way_and_is_reported():
    async def work():
        switch = ScriptedSwitch()
        switch.silent = {20}
        heard: list[SwitchRefused] = []
        events = ConnectionEvents(on_refusal=lambda _, error: heard.append(error))
        async with meeting(switch, events=events) as (_, [connection]):
            task = asyncio.create_task(connection.commit(adding(3), PATIENCE))
            [(_, xid, _)] = await switch.saw(20)
            switch.refuse_now(0, 1, 6)
            switch.write(plain(5, 21, xid))
            with pytest.raises(SwitchRefused) as refused:
                await task
            assert refused.value.index is None
            assert [error.code for error in heard] == ["OFPBRC_BAD_LEN"]
            assert not switch.committed

    asyncio.run(work())


def test_a_switch_without_bundles_says_so():
    async def work():
        switch = ScriptedSwitch(4)
        switch.silent = {4}
        async with meeting(switch) as (_, [connection]):
            task = asyncio.create_task(connection.commit(adding(1), PATIENCE))
            frames = await switch.saw(4, 2)
            for _, xid, _ in frames:
                switch.refuse_now(xid, 1, 3)
            with pytest.raises(SwitchRefused) as refused:
                await task
            assert refused.value.code == "OFPBRC_BAD_EXPERIMENTER"

    asyncio.run(work())


def test_the_experimenter_errors_of_bundles_have_the_names_of_1_4():
    async def work():
        switch = ScriptedSwitch(4)
        switch.silent = {4}
        async with meeting(switch) as (_, [connection]):
            task = asyncio.create_task(connection.commit(adding(1), PATIENCE))
            frames = await switch.saw(4, 2)
            switch.refuse_now(frames[0][1], 0xFFFF, 2305, struct.pack("!I", 0x4F4E4600))
            with pytest.raises(SwitchRefused) as refused:
                await task
            assert (refused.value.kind, refused.value.code) == ("OFPET_BUNDLE_FAILED", "OFPBFC_OUT_OF_BUNDLES")

    asyncio.run(work())


@pytest.mark.parametrize("silent", [20, 33])
def test_a_silent_switch_is_an_outcome_that_is_not_known(silent):
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            switch.silent = {silent}
            with pytest.raises(SwitchSilent):
                await connection.commit(adding(3), 0.05)
            switch.silent = set()
            await connection.commit(adding(2), PATIENCE)
            assert len(switch.committed) == 2

    asyncio.run(work())


def test_commits_at_once_take_effect_one_after_another():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            await asyncio.gather(
                *(
                    connection.commit([RuleChange(Change.ADD, rule(n)), RuleChange(Change.DELETE, rule(n))], PATIENCE)
                    for n in range(9)
                )
            )
            cookies = [struct.unpack_from("!Q", message, 8)[0] for message in switch.committed]
            assert cookies == [n for n in range(9) for _ in range(2)]
            asked = [struct.unpack("!IHH", body)[:2] for kind, _, body in switch.seen if kind == 33]
            assert asked == [(bundle, action) for bundle in range(1, 10) for action in (BUNDLE_OPEN, BUNDLE_COMMIT)]

    asyncio.run(work())


def test_a_rule_that_cannot_be_written_leaves_nothing_behind():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            with pytest.raises(SwitchError, match="room"):
                await connection.commit([*adding(150), RuleChange(Change.ADD, Rule(0, 70_000, Match()))], PATIENCE)
            await connection.barrier(PATIENCE)
            assert not switch.staged
            assert not switch.committed

    asyncio.run(work())


def test_nothing_can_be_asked_of_a_connection_that_has_ended():
    async def work():
        reasons: list[str] = []
        events = ConnectionEvents(on_closed=lambda _, reason: reasons.append(reason))
        async with meeting(ScriptedSwitch(), events=events) as (_, [connection]):
            connection.close()
            for request in (connection.commit(adding(1), PATIENCE), connection.flows(), connection.barrier(PATIENCE)):
                with pytest.raises(SwitchGone):
                    await request
            connection.packet_out(1, b"")
            connection.close()
            await until(lambda: reasons)
            assert reasons == ["closed by the controller"]

    asyncio.run(work())


# -- the rest of what can be asked -----------------------------------------------------------------------------------


@VERSIONS
def test_flow_statistics_come_in_parts(version):
    async def work():
        switch = ScriptedSwitch(version)
        entries = [stats_entry(version, rule(n), n, 100 * n) for n in range(600)]
        switch.flow_parts = [b"".join(entries[:250]), b"", b"".join(entries[250:]), b""]
        async with meeting(switch) as (_, [connection]):
            assert await connection.flows(1, 2, timeout=PATIENCE) == [
                CountedRule(rule(n), n, 100 * n) for n in range(600)
            ]

    asyncio.run(work())


def test_an_answer_to_another_question_ends_the_connection():
    async def work():
        switch = ScriptedSwitch()
        switch.silent = {20}
        async with meeting(switch) as (_, [connection]):
            task = asyncio.create_task(connection.barrier(PATIENCE))
            [(_, xid, _)] = await switch.saw(20)
            switch.write(plain(5, 6, xid, bytes(24)))
            with pytest.raises(SwitchGone, match="no answer to request"):
                await task

    asyncio.run(work())


def test_a_late_answer_is_passed_over():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            switch.silent = {20}
            with pytest.raises(SwitchSilent):
                await connection.barrier(0.02)
            switch.silent = set()
            [(_, xid, _)] = await switch.saw(20)
            switch.write(plain(5, 21, xid))
            await connection.barrier(PATIENCE)

    asyncio.run(work())


@VERSIONS
def test_packets_come_in_and_go_out(version):
    async def work():
        switch = ScriptedSwitch(version)
        arrived: list = []
        heard: list[SwitchRefused] = []
        events = ConnectionEvents(lambda _, packet: arrived.append(packet), on_refusal=lambda _, e: heard.append(e))
        async with meeting(switch, events=events) as (_, [connection]):
            protocol = PROTOCOLS[version]
            match = bytearray()
            protocol.ofproto_parser.OFPMatch(in_port=9, eth_type=0x88CC).serialize(match, 0)
            body = struct.pack("!IHBBQ", 0xFFFFFFFF, 3, 1, 2, 77) + bytes(match) + b"\0\0" + b"abc"
            switch.write(plain(version, 10, 0, body))
            await until(lambda: arrived)
            assert arrived == [(9, b"abc", 2, 77, "action")]
            connection.packet_out(4, b"frame", 9)
            [(_, xid, body)] = await switch.saw(13)
            assert body == struct.pack("!IIH6xHHIH6x", 0xFFFFFFFF, 9, 16, 0, 16, 4, 0) + b"frame"
            switch.refuse_now(xid, 2, 4)
            await until(lambda: heard)
            assert heard[0].code == "OFPBAC_BAD_OUT_PORT"

    asyncio.run(work())


@VERSIONS
def test_ports_are_kept_current(version):
    async def work():
        switch = ScriptedSwitch(version)
        told: list = []
        events = ConnectionEvents(on_port_status=lambda _, port, reason: told.append((port.number, port.up, reason)))
        async with meeting(switch, events=events) as (_, [connection]):
            switch.port_status(2, 1, "eth1", 0, 1)
            switch.port_status(1, 2, "eth2", 0, 0)
            switch.port_status(0, 8, "eth8", 0, 0)
            await until(lambda: len(told) == 3)
            assert told == [(1, False, "modify"), (2, True, "delete"), (8, True, "add")]
            assert {number: port.up for number, port in connection.ports.items()} == {1: False, 3: False, 8: True}

    asyncio.run(work())


def test_a_port_that_changes_while_the_ports_are_listed_is_as_it_was_last():
    async def work():
        switch = ScriptedSwitch()
        greeted: asyncio.Queue = asyncio.Queue()
        switch.silent = {18}
        async with SwitchListener(("127.0.0.1", 0), None, greeted.put) as listener:
            await switch.connect(listener.address)
            [(_, xid, _)] = await switch.saw(18)
            first, rest = switch.ports[:1], switch.ports[1:]
            for ports, more in ((first, 1), (rest, 0)):
                body = b"".join(switch.port(*port) for port in ports)
                switch.write(plain(5, 19, xid, struct.pack("!HH4x", 13, more) + body))
                if more:
                    switch.port_status(2, 1, "eth1", 0, 1)
            connection = await asyncio.wait_for(greeted.get(), PATIENCE)
            assert not connection.ports[1].up
            await switch.disconnect()

    asyncio.run(work())


def test_a_callback_that_fails_ends_nothing():
    async def work():
        switch = ScriptedSwitch()
        problems: list = []
        async with meeting(switch, events=ConnectionEvents(on_port_status=lambda *_: 1 // 0)) as (_, [connection]):
            asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))
            switch.port_status(2, 1, "eth1", 0, 1)
            await until(lambda: problems)
            await connection.barrier(PATIENCE)
            assert isinstance(problems[0], ZeroDivisionError)

    asyncio.run(work())


# -- life and death --------------------------------------------------------------------------------------------------


def test_echo_requests_are_answered_with_what_they_bring():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch):
            switch.write(plain(5, 2, 99, b"still there?"))
            assert await switch.saw(3) == [(3, 99, b"still there?")]

    asyncio.run(work())


def test_a_switch_that_answers_echoes_stays_and_one_that_does_not_is_given_up():
    async def work():
        living, dead = ScriptedSwitch(datapath=1), ScriptedSwitch(datapath=2)
        dead.silent = {2}
        async with meeting(living, dead, idle=0.05, dead=1.0) as (_, [first, second]):
            assert "no sign of life in 1 s" in await ended(second)
            await living.saw(2, 3)
            assert first.closed is None

    asyncio.run(work())


def test_a_half_closed_connection_has_ended():
    async def work():
        switch = ScriptedSwitch()
        switch.silent = {20}
        async with meeting(switch) as (_, [connection]):
            task = asyncio.create_task(connection.commit(adding(1), PATIENCE))
            await switch.saw(20)
            switch.half_close()
            with pytest.raises(SwitchGone, match="closed the connection"):
                await task

    asyncio.run(work())


def test_a_switch_that_reads_nothing_is_not_sent_without_end():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            switch._task.cancel()
            for _ in range(2000):
                connection.packet_out(1, bytes(60_000))
            assert connection.packets_left_out > 1500
            assert connection.channel.waiting < 1 << 20
            with pytest.raises(SwitchSilent):
                await connection.commit(adding(30_000), 2.0)
            assert connection.channel.waiting < 1 << 20

    asyncio.run(work())


def test_a_switch_that_only_asks_and_never_reads_is_given_up():
    async def work():
        switch = ScriptedSwitch()
        async with meeting(switch) as (_, [connection]):
            switch._task.cancel()
            echo = plain(5, 2, 1, bytes(65_000))
            for _ in range(2000):
                switch.write(echo)
                await switch._writer.drain()
                await asyncio.sleep(0)
                if connection.closed:
                    break
            assert "does not read" in await ended(connection)

    asyncio.run(work())

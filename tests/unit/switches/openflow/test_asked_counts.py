"""What switches count: asked for when somebody wants to know it, and not more often than needed."""

import pytest

from pleroma.errors import SwitchError
from pleroma.routing import Port, SwitchId
from pleroma.switches.openflow.asked_counts import FRESH_SECONDS, AskedCounts
from pleroma.switches.openflow.replies import PortTraffic, sent_by_port
from support.openflow_switch import ScriptedSwitch, meeting, port_statistics
from support.waiting import run, until

R1, AWAY = SwitchId("R1"), SwitchId("R2")
MULTIPART_REQUEST = 18


async def packets_at(connection, place):
    return await connection.packets_at(place[1], 1, 1, 0)


def counts_of(connection, now):
    return AskedCounts(lambda place: {R1: connection}.get(place[0]), packets_at, lambda: now[0])


def test_a_switch_is_asked_when_the_last_answer_is_old():
    async def main():
        switch, now = ScriptedSwitch(), [100.0]
        switch.packets = 5
        async with meeting(switch) as (_, (connection,)):
            counts = counts_of(connection, now)
            assert counts.at((R1, Port(1))) is None
            await until(lambda: counts.at((R1, Port(1))) == 5)
            asked = len(await switch.saw(MULTIPART_REQUEST))
            switch.packets = 9
            assert counts.at((R1, Port(1))) == 5
            assert len(await switch.saw(MULTIPART_REQUEST)) == asked
            now[0] += FRESH_SECONDS
            assert counts.at((R1, Port(1))) == 5  # until the answer is there
            await until(lambda: counts.at((R1, Port(1))) == 9)
            assert counts.at((AWAY, Port(1))) is None

    run(main)


def test_what_a_switch_refuses_to_tell_is_not_known():
    async def main():
        switch, now = ScriptedSwitch(), [0.0]
        async with meeting(switch) as (_, (connection,)):
            counts = counts_of(connection, now)
            counts.at((R1, Port(1)))
            await until(lambda: counts.at((R1, Port(1))) == 0)
            switch.silent.add(MULTIPART_REQUEST)
            now[0] += FRESH_SECONDS
            counts.at((R1, Port(1)))
            (*_, (_, number, _)) = await switch.saw(MULTIPART_REQUEST, 3)
            switch.refuse_now(number, 1, 2)
            await until(lambda: counts.at((R1, Port(1))) is None)

    run(main)


@pytest.mark.parametrize("version", [4, 5])
def test_a_switch_tells_what_each_of_its_ports_has_sent(version):
    async def main():
        switch = ScriptedSwitch(version=version)
        switch.sent = {1: (5, 640), 2: (2**40, 2**50)}
        async with meeting(switch) as (_, (connection,)):
            assert await connection.sent_by_port() == {1: PortTraffic(5, 640), 2: PortTraffic(2**40, 2**50)}

    run(main)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("cut", [1, 40, 79])
def test_port_statistics_that_end_in_the_middle_of_a_port_are_refused(version, cut):
    body = port_statistics(version, 1, 5, 640)
    assert sent_by_port(version, body * 2) == {1: PortTraffic(5, 640)}
    with pytest.raises(SwitchError):
        sent_by_port(version, body + body[:cut])
    if version == 5:
        with pytest.raises(SwitchError, match="impossible length"):
            sent_by_port(version, b"\0\4" + body[2:])

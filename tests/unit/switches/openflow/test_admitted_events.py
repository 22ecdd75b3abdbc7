"""What switches count at hosts' ports: asked for when somebody wants to know it, and not more often than needed."""

from pleroma.routing import Port, SwitchId
from pleroma.switches.openflow.admitted_events import FRESH_SECONDS, AdmittedEvents
from support.openflow_switch import ScriptedSwitch, meeting
from support.waiting import run, until

R1, AWAY = SwitchId("R1"), SwitchId("R2")
MULTIPART_REQUEST = 18


def test_a_switch_is_asked_when_the_last_answer_is_old():
    async def main():
        switch, now = ScriptedSwitch(), [100.0]
        switch.packets = 5
        async with meeting(switch) as (_, (connection,)):
            admitted = AdmittedEvents({R1: connection}.get, lambda: now[0])
            assert admitted.at(R1, Port(1)) is None
            await until(lambda: admitted.at(R1, Port(1)) == 5)
            asked = len(await switch.saw(MULTIPART_REQUEST))
            switch.packets = 9
            assert admitted.at(R1, Port(1)) == 5
            assert len(await switch.saw(MULTIPART_REQUEST)) == asked
            now[0] += FRESH_SECONDS
            assert admitted.at(R1, Port(1)) == 5  # until the answer is there
            await until(lambda: admitted.at(R1, Port(1)) == 9)
            assert admitted.at(AWAY, Port(1)) is None

    run(main)


def test_what_a_switch_refuses_to_tell_is_not_known():
    async def main():
        switch, now = ScriptedSwitch(), [0.0]
        async with meeting(switch) as (_, (connection,)):
            admitted = AdmittedEvents({R1: connection}.get, lambda: now[0])
            admitted.at(R1, Port(1))
            await until(lambda: admitted.at(R1, Port(1)) == 0)
            switch.silent.add(MULTIPART_REQUEST)
            now[0] += FRESH_SECONDS
            admitted.at(R1, Port(1))
            (*_, (_, number, _)) = await switch.saw(MULTIPART_REQUEST, 3)
            switch.refuse_now(number, 1, 2)
            await until(lambda: admitted.at(R1, Port(1)) is None)

    run(main)

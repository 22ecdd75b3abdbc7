"""Two controllers and real switches, which obey the later one: the earlier one can change nothing any more."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from pleroma.errors import SwitchFenced
from pleroma.index import Dz
from pleroma.lab import Lab
from pleroma.routing import Change, Flow, FlowOp, Output, build
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from support.network.world import STEADY, free_port
from support.programs import environment
from support.waiting import LIMIT_SECONDS, until

LINE = build("line:2")
PROTOCOLS = pytest.mark.parametrize("protocol", ["OpenFlow13", "OpenFlow14"])


def adding(bits, switch="R1"):
    return FlowOp(switch, Change.ADD, Flow(Dz.parse(bits), (Output(1),)))


def deleting(bits, switch="R1"):
    return FlowOp(switch, Change.DELETE, Flow(Dz.parse(bits), (Output(1),)))


@asynccontextmanager
async def controller(generation, told, port=0):
    made = OpenFlowNetwork(
        DiscoveredTopology(LINE),
        listen=("127.0.0.1", port),
        timeouts=STEADY,
        generation=generation,
        on_fenced=told.append,
    )
    async with made:
        yield made


def rules(made, switch="R1"):
    """What the switch says that its forwarding table has."""

    async def work():
        found = await made.count_packets(switch, LIMIT_SECONDS)
        assert found is not None
        return {str(dz) for dz in found}

    return work()


def targets(*ports):
    return [f"tcp:127.0.0.1:{port}" for port in ports]


@PROTOCOLS
def test_the_switch_takes_no_change_from_a_controller_that_was_replaced(protocol):
    async def work():
        told_a, told_b = [], []
        async with controller(5, told_a) as a, controller(6, told_b) as b:
            lab = await asyncio.to_thread(
                Lab.up, LINE, controller=targets(a.address[1], b.address[1]), protocols=[protocol]
            )
            try:
                await a.install([adding("0"), adding("0", "R2")])
                assert await rules(a) == {"0"}
                await b.install([adding("1"), adding("1", "R2")])
                assert await rules(b) == await rules(b, "R2") == {"1"}
                with pytest.raises(SwitchFenced):
                    await a.install([adding("01"), deleting("0")])
                await until(lambda: told_a, LIMIT_SECONDS)
                assert (a.is_fenced, b.is_fenced) == (True, False)
                assert await rules(b) == await rules(b, "R2") == {"1"}
                with pytest.raises(SwitchFenced):
                    await a.install([adding("00", "R2")])
                await b.install([adding("11"), adding("11", "R2")])
                assert await rules(b) == await rules(b, "R2") == {"1", "11"}
                assert (len(told_a), told_b) == (1, [])
                assert a.status()["R1"].refused == ()
            finally:
                await asyncio.to_thread(lab.close)

    asyncio.run(asyncio.wait_for(work(), 2 * LIMIT_SECONDS))


@PROTOCOLS
def test_a_controller_that_returns_with_its_old_generation_is_refused_as_stale(protocol):
    async def work():
        told_a, told_again = [], []
        port = free_port()
        async with controller(6, []) as b:
            targets_of_both = targets(port, b.address[1])
            async with controller(5, told_a, port) as a:
                lab = await asyncio.to_thread(Lab.up, LINE, controller=targets_of_both, protocols=[protocol])
                try:
                    await a.install([adding("0")])
                except BaseException:
                    await asyncio.to_thread(lab.close)
                    raise
            try:
                await b.install([adding("1")])
                async with controller(5, told_again, port) as again:
                    with pytest.raises(SwitchFenced, match="STALE"):
                        await again.install([adding("00")])
                    await until(lambda: told_again, LIMIT_SECONDS)
                    assert again.is_fenced
                assert await rules(b) == {"1"}
                async with controller(7, [], port) as later:
                    await later.install([adding("10")])
                    assert await rules(later) == {"10"}
                    with pytest.raises(SwitchFenced):
                        await b.install([adding("00")])
                    assert await rules(later) == {"10"}
            finally:
                await asyncio.to_thread(lab.close)

    asyncio.run(asyncio.wait_for(work(), 2 * LIMIT_SECONDS))


@PROTOCOLS
def test_a_process_that_was_paused_over_the_takeover_changes_nothing_when_it_goes_on(protocol):
    port = free_port()
    command = [sys.executable, "-m", "support.network.paused_controller", str(port), "5", "line:2"]
    paused = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(PYTHONWARNINGS="")
    )

    def says(beginning):
        for line in paused.stdout:
            if line.startswith(beginning):
                return line.split()
        raise AssertionError("it ended")

    def tell(bits):
        paused.stdin.write(f"{bits}\n")
        paused.stdin.flush()

    async def work():
        async with controller(6, []) as b:
            lab = await asyncio.to_thread(Lab.up, LINE, controller=targets(port, b.address[1]), protocols=[protocol])
            try:
                tell("0")
                assert await asyncio.to_thread(says, "installed") == ["installed", "0"]
                os.kill(paused.pid, signal.SIGSTOP)
                tell("01")  # it finds the work when it goes on
                await b.install([adding("1")])
                assert await rules(b) == {"1"}
                os.kill(paused.pid, signal.SIGCONT)
                assert await asyncio.to_thread(says, "fenced") == ["fenced", "01"]
                tell("00")
                assert await asyncio.to_thread(says, "fenced") == ["fenced", "00"]
                assert await rules(b) == {"1"}
                assert not b.is_fenced
            finally:
                await asyncio.to_thread(lab.close)

    try:
        asyncio.run(asyncio.wait_for(work(), 2 * LIMIT_SECONDS))
    finally:
        paused.kill()
        paused.stdin.close()
        paused.stdout.close()
        paused.wait()

"""Separate processes really exchange packets through simulated switches."""

import asyncio
import random
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from ipaddress import IPv6Address
from pathlib import Path

from pleroma.index import IPV6, Dz
from pleroma.routing import build
from pleroma.routing.flow import Change, Flow, FlowOp, Output
from pleroma.switches.live.live_network import LiveNetwork

PEER = Path(__file__).with_name("live_peer.py")
LINE = build("line:3")
EVENT = Dz.parse("1010")


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, 60))


def port(switch, towards):
    return next(own for own, other, _, _ in LINE.neighbours[switch] if other == towards)


def rules(bits, change=Change.ADD):
    """From h1 along the line to h2 and h3."""
    r1, r2, r3 = LINE.switches
    _, h2, h3 = LINE.hosts
    outputs = {
        r1: [Output(port(r1, r2))],
        r2: [Output(h2.port, h2.address), Output(port(r2, r3))],
        r3: [Output(h3.port, h3.address)],
    }
    return [FlowOp(s, change, Flow(Dz.parse(bits), tuple(sorted(out)))) for s, out in outputs.items()]


class Process:
    def __init__(self, process, secret):
        self.process, self.secret = process, secret

    def send(self, dz, packet):
        self.process.stdin.write(f"{IPV6.address(dz).packed.hex()} {packet.hex()}\n".encode())

    async def next(self):
        """The next packet that came to it."""
        destination, packet = (await asyncio.wait_for(self.process.stdout.readline(), 20)).split()
        return IPv6Address(bytes.fromhex(destination.decode())), bytes.fromhex(packet.decode())

    async def numbers(self, last):
        """The numbers that came to it, up to the last one."""
        found = []
        while found[-1:] != [last]:
            found.append(int.from_bytes((await self.next())[1]))
        return found

    async def end(self):
        if self.process.returncode is None:
            self.process.stdin.close()
            await asyncio.wait_for(self.process.wait(), 20)


@asynccontextmanager
async def running(**options):
    """A network, and what starts processes at its hosts."""
    started = []

    async def start(role, host, seconds=60.0):
        secret = random.randbytes(16)
        net.admit(host, secret, seconds)
        command = [sys.executable, str(PEER), role, str(net.ports[host]), secret.hex()]
        process = Process(
            await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE), secret
        )
        started.append(process)
        assert await asyncio.wait_for(process.process.stdout.readline(), 20) == b"attached\n"
        return process

    async with LiveNetwork(LINE, **options) as net:
        try:
            yield net, start
        finally:
            for each in started:
                if each.process.returncode is None:
                    each.process.kill()
                await each.process.wait()


def test_packets_go_from_process_to_process_and_only_where_the_rules_say():
    async def test():
        async with running() as (net, start):
            await net.install(rules("10"))
            sender, two, three = await start("send", "h1"), await start("receive", "h2"), await start("receive", "h3")
            sender.send(EVENT, b"wanted")
            sender.send(Dz.parse("11"), b"unwanted")
            sender.send(EVENT, b"last")
            assert [await two.next(), await two.next()] == [
                (IPv6Address("fd00::2"), b"wanted"),
                (IPv6Address("fd00::2"), b"last"),
            ]
            assert [await three.next(), await three.next()] == [
                (IPv6Address("fd00::3"), b"wanted"),
                (IPv6Address("fd00::3"), b"last"),
            ]
            assert [c.lookups for c in net.switches.values()] == [3, 2, 2]
            for each in (sender, two, three):
                await each.end()
                assert each.process.returncode == 0
            assert net.sessions() == {"h1": 0, "h2": 0, "h3": 0}  # all have detached

    run(test())


def test_while_rules_change_nothing_that_is_wanted_all_the_time_is_lost():
    """A longer rule comes and goes at h3's switch and others beside it; h2 wants everything throughout."""

    async def test():
        async with running() as (net, start):
            await net.install(rules("1"))
            sender, two, three = await start("send", "h1"), await start("receive", "h2"), await start("receive", "h3")
            count, changes = 3000, 0
            receiving = asyncio.gather(two.numbers(count), three.numbers(count))
            silent = FlowOp(LINE.switches[2], Change.ADD, Flow(Dz.parse("101"), ()))
            beside = rules("0")[1]
            for number in range(1, count):
                sender.send(EVENT, number.to_bytes(4))
                if number % 20 == 0:
                    await sender.process.stdin.drain()
                    await asyncio.sleep(0.002)
                    change = Change.DELETE if changes % 2 else Change.ADD
                    await net.install([silent._replace(change=change), beside._replace(change=change)])
                    changes += 1
            if changes % 2:
                await net.install([silent._replace(change=Change.DELETE)])
            while net.hosts["h1"].published < count - 1:
                await asyncio.sleep(0.01)
            sender.send(EVENT, count.to_bytes(4))
            to_two, to_three = await receiving
            assert to_two == list(range(1, count + 1))
            assert to_three == sorted(set(to_three))
            assert 0 < len(to_three) < count, "h3's rules did not change while packets came"
            assert changes > 100
            assert net.hosts["h3"].delivered == len(to_three)

    run(test())


def test_a_process_that_does_not_read_does_not_slow_others():
    async def test():
        async with running() as (net, start):
            await net.install(rules("1"))
            sender, two = await start("send", "h1"), await start("receive", "h2")
            await start("ignore", "h2")
            await start("ignore", "h3")
            count = 2000
            receiving = asyncio.ensure_future(two.numbers(count))
            for number in range(1, count + 1):
                sender.send(EVENT, number.to_bytes(4))
                if number % 50 == 0:
                    await sender.process.stdin.drain()
                    await asyncio.sleep(0.001)
            assert await receiving == list(range(1, count + 1))
            drops = net.kernel_drops()
            if drops is not None:
                assert min(drops.leaving["h2"], drops.leaving["h3"]) > count / 2

    run(test())


def test_a_killed_process_is_forgotten_and_the_others_go_on():
    async def test():
        later = [0.0]
        async with running(clock=lambda: time.monotonic() + later[0]) as (net, start):
            await net.install(rules("1"))
            sender, two = await start("send", "h1", 1000), await start("receive", "h2", 1000)
            killed = await start("receive", "h2", seconds=100)
            killed.process.kill()
            await killed.process.wait()
            assert len(net.attached("h2")) == 2
            for number in (1, 2, 3):  # to a port where nobody listens
                sender.send(EVENT, number.to_bytes(4))
            assert await two.numbers(3) == [1, 2, 3]
            later[0] = 100
            assert len(net.attached("h2")) == 1
            sender.send(EVENT, b"\4")
            assert (await two.next())[1] == b"\4"
            assert net.hosts["h1"].published == 4

    run(test())

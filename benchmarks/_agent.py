"""What a host agent costs: events through it to 1, 10 and 100 programs, beside a program that has the port itself.

Packets go by UDP to the port, at the loopback interface, from this process; the agent and the programs are processes of
their own. Each program has a filter, and each event is for one program. The controller is one of simulated switches,
whose answer to an attachment is rewritten into that of a network of real ones.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from pleroma.client import Client, Publisher, connect
from pleroma.client.links.network_link import HostAttachment
from pleroma.client.session.subscription import Subscription
from pleroma.content import Integer, Real, Schema
from pleroma.experiments.demonstration.running_controller import embedded
from pleroma.host_agent import AgentSettings, HostAgent
from pleroma.host_agent.controller_calls import ControllerCalls
from pleroma.host_agent.local_programs import Credentials
from pleroma.index.address import IPV6
from pleroma.wire.api_call import ApiRequest, ApiResponse

HOST = "h1"
ADDRESS = "::1"
SCHEMA = Schema("ticks", (Integer("program", False, 0, 127), Real("price", False, 0.0, 1000.0)))
PROGRAMS = (1, 10, 100)
AGENT_EVENT_RATES = (2_500, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000)
RATE_SECONDS = 2.0
LATENCY_RATE = 500
LATENCY_SECONDS = 4.0
MAX_ARRIVAL_SECONDS = 10.0
"""After so long, events that have not arrived are lost."""
QUIET_SECONDS = 0.5
"""So long after the last event, whatever is still missing is lost."""


async def figures(advance: Callable[[float], None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with embedded("line:3") as stage, connect(stage.url, stage.token, HOST) as client:
        await client.create_schema(SCHEMA)
        publisher = await client.advertise(SCHEMA.name)
        port = _free_port()
        async with _processes() as start:
            direct = await start("programs", "native", str(port), stage.url, stage.token, "1")
            without = (await _sent(publisher, port, 1, LATENCY_RATE, LATENCY_SECONDS, direct))["p50_us"]
            found["owner_p50_us"] = round(without)
            found["owner_events_per_s"] = await _highest(publisher, port, 1, direct)
        advance(1)
        for many in PROGRAMS:
            with tempfile.TemporaryDirectory(prefix="agent") as folder:
                place = str(Path(folder) / "agent.sock")
                async with _processes() as start:
                    await start("agent", place, str(port), stage.url)
                    programs = await start("programs", "agent", place, stage.url, stage.token, str(many))
                    through = await _sent(publisher, port, many, LATENCY_RATE, LATENCY_SECONDS, programs)
                    name = "agent_added_p50_us" if many == 1 else f"agent_added_p50_us_{many}"
                    found[name] = round(through["p50_us"] - without)
                    found[f"agent_events_per_s_{many}"] = await _highest(publisher, port, many, programs)
            advance(1)
    return found


class _Process:
    """Another run of this file; it answers each line with one of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def told(self, line: str = "") -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if line:
            self.process.stdin.write(f"{line}\n".encode())
        return json.loads(await self.process.stdout.readline())


@asynccontextmanager
async def _processes() -> Any:
    running: list[_Process] = []

    async def start(*words: str) -> _Process:
        pipe = asyncio.subprocess.PIPE
        arguments = (sys.executable, __file__, *words)
        made = _Process(await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe))
        running.append(made)
        await made.told()
        return made

    try:
        yield start
    finally:
        for each in reversed(running):
            each.process.terminate()
            await each.process.wait()


async def _highest(publisher: Publisher, port: int, many: int, programs: _Process) -> int:
    """The highest rate at which no event was lost."""
    best = 0.0
    for rate in AGENT_EVENT_RATES:
        done = await _sent(publisher, port, many, rate, RATE_SECONDS, programs)
        if done["missing"] or done["rate"] < 0.9 * rate:
            break
        best = done["rate"]
    return round(best)


async def _sent(
    publisher: Publisher, port: int, many: int, rate: float, seconds: float, programs: _Process
) -> dict[str, Any]:
    """Send events at a rate: the rate that was reached, how many events are missing, and how late they were."""
    channel, number, _, seal = publisher._route
    codec_events = [SCHEMA.event(program=n, price=float(n)) for n in range(many)]
    await programs.told("begin")
    out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    out.connect((ADDRESS, port))
    start, total = time.perf_counter(), int(rate * seconds)
    for n, event in zip(range(total), itertools.cycle(codec_events), strict=False):
        while (wait := start + n / rate - time.perf_counter()) > 0:
            await asyncio.sleep(wait if wait > 0.002 else 0)
        packet = channel.datagrams(event, number, next(publisher._sequence), time.time_ns(), seal)[0][1]
        out.send(packet)
    reached = total / (time.perf_counter() - start)
    out.close()
    counted = await _counted(programs, total)
    return {"rate": reached, "missing": total - counted["events"], "p50_us": counted["p50_us"]}


async def _counted(programs: _Process, total: int) -> dict[str, Any]:
    """What has arrived, when it is all, or when no more comes."""
    limit, before = time.perf_counter() + MAX_ARRIVAL_SECONDS, 0
    while True:
        counted: dict[str, Any] = await programs.told("count")
        arrived = counted["events"]
        if arrived >= total or (0 < arrived == before) or time.perf_counter() > limit:
            return counted
        before = arrived
        await asyncio.sleep(QUIET_SECONDS)


def _free_port() -> int:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


class _NativeCalls:
    """A controller that lets programs use their host's own network, at the loopback interface."""

    def __init__(self, url: str, port: int) -> None:
        self.host = None
        self._calls = ControllerCalls(url)
        self._told = {"network": "native", "address": ADDRESS, "port": port}

    async def ask(self, request: ApiRequest, who: Credentials) -> ApiResponse:
        answer = await self._calls.ask(request, who)
        if "/attachments" not in request.path or answer.status != 201:
            return answer
        body = json.dumps(json.loads(answer.body) | self._told).encode()
        return ApiResponse(answer.status, answer.headers, body)


async def _agent(place: str, port: int, url: str) -> None:
    async with HostAgent(AgentSettings(url, place), _NativeCalls(url, port)):
        print("{}", flush=True)
        await asyncio.Event().wait()


async def _programs(kind: str, where: str, url: str, token: str, many: int) -> None:
    """So many programs in one process, each with the events of its own filter."""
    if kind == "native":
        owned = HostAttachment(HOST, (ADDRESS, int(where)), 30.0, IPV6)
        HostAttachment.from_json = lambda *_: owned  # type: ignore[method-assign]
    address = url if kind == "native" else f"unix:{where}"
    async with AsyncExitStack() as stack:
        subscriptions = []
        for n in range(many):
            client: Client = await stack.enter_async_context(connect(address, token, HOST))
            subscriptions.append(await client.subscribe(SCHEMA.name, f"program = {n}", queue=10**6))
        late: list[int] = []
        readers = [asyncio.create_task(_read(each, late)) for each in subscriptions]
        print("{}", flush=True)
        loop = asyncio.get_running_loop()
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            late.sort()
            p50 = late[len(late) // 2] / 1000 if late else None
            print(json.dumps({"events": len(late), "p50_us": p50}), flush=True)
            if line == "begin":
                late.clear()
        for each in readers:
            each.cancel()


async def _read(subscription: Subscription, late: list[int]) -> None:
    while True:
        packet = await subscription.receive()
        late.append(time.time_ns() - packet.time)


def _main(words: Sequence[str]) -> None:
    import uvloop

    kind, *rest = words
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if kind == "agent":
            runner.run(_agent(rest[0], int(rest[1]), rest[2]))
        else:
            runner.run(_programs(rest[0], rest[1], rest[2], rest[3], int(rest[4])))


if __name__ == "__main__":
    _main(sys.argv[1:])

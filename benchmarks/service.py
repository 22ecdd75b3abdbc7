"""The controller over HTTP, events through the live network, and a restart with 100,000 subscriptions.

Requests are subscriptions of the stock quotes, and once more boxes in eight attributes: one by one at the highest rate
and at half of it, and in batches, from another process than the controller's. Events go from one end of three switches
to the other, where one client has 1,000 subscriptions: the highest rate at which none was lost, with tags and without.
Then events go through a host agent to 1, 10 and 100 programs, and to one that has the event port itself.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from pleroma.client import connect
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Filter, filter_json
from pleroma.control import ControlState, CreatePrincipal, CreateSchema, Register, SqliteLog
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log.durable_log import Position
from pleroma.control.log_fold import log_body
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.command import Begin
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state_snapshot import snapshot
from pleroma.experiments.demonstration.replay import difference, expected, send, subscribers
from pleroma.experiments.demonstration.running_controller import embedded
from pleroma.index import Dz, GridIndex, IndexPlan
from pleroma.routing import build
from pleroma.workloads import EXPRESSIVE, StockModel, Workload, generate, generate_stock, rates

HERE = Path(__file__).parent
STEPS = 104
PRINCIPALS = 4
CONNECTIONS = 32
REQUESTS_PER_RUN = 4_000
BATCH_ITEMS = 500
RESTART_SUBSCRIPTIONS = 100_000
EVENT_RATES = (2_500, 5_000, 7_500, 10_000, 12_500, 15_000, 20_000, 25_000)
SECONDS_PER_RATE = 3.0


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    quotes = generate_stock(StockModel(subscriptions=4 * REQUESTS_PER_RUN))
    figures = asyncio.run(_requests(quotes, advance))
    boxes = asyncio.run(_requests(_workload(4 * REQUESTS_PER_RUN, 1), advance))
    figures |= {"eight_attributes": boxes}
    figures |= asyncio.run(_events(advance))
    without = asyncio.run(_events(advance, event_tags=False))["events_per_s"]
    figures["tags"] = {"events_per_s_without": without} | _tags()
    figures |= asyncio.run(_module("_agent").figures(advance))
    return figures | _restart(advance)


def _tags() -> dict[str, float]:
    """What tags add to the work of a publisher and of a client with 1,000 subscriptions."""
    data = _workload(1_000, 5_000)
    plan = IndexPlan(1, GridIndex.regular(data.schema, 48))
    cost: dict[str, float] = _module("_tags").cost(SchemaChannel(1, Dz(0b10), plan), data.events, data.subscriptions)
    return cost


def _workload(subscriptions: int, events: int) -> Workload:
    model = replace(EXPRESSIVE, subscriptions=subscriptions, events=events, placement="inside", width=0.2)
    return generate(model)


async def _requests(data: Workload, advance: Callable[[float], None]) -> dict[str, Any]:
    """Subscriptions accepted: durable, and in force on the switches of the testbed.

    Several principals ask: one alone may not ask for as much as the service can do.
    """
    hosts = [host.name for host in build("testbed").hosts]
    bodies = []
    for number, wanted in enumerate(data.subscriptions):
        asked = {"schema": data.schema.name, "boxes": filter_json.to_json(wanted), "host": hosts[number % len(hosts)]}
        bodies.append(json.dumps(asked).encode())
    warm, first, second, third = (bodies[at : at + REQUESTS_PER_RUN] for at in range(0, len(bodies), REQUESTS_PER_RUN))
    load = _module("_http_load")
    async with embedded("testbed") as stage:
        url, token = stage.url, stage.token
        port = urlsplit(url).port or 0
        async with connect(url, token) as client:
            await client.create_schema(data.schema)
            tokens = await load.principals(port, token, PRINCIPALS, len(bodies))
            async with await client.advertise(data.schema.name):
                await load.batches(port, tokens, "/v1/subscriptions:batch", warm, BATCH_ITEMS)
                accepted = await load.flat_out(port, tokens, "/v1/subscriptions", first, CONNECTIONS)
                advance(6)
                batched = await load.batches(port, tokens, "/v1/subscriptions:batch", warm + first, BATCH_ITEMS)
                advance(2)
                due = rates.uniform(accepted / 2, REQUESTS_PER_RUN).tolist()
                evenly = await load.paced(port, tokens, "/v1/subscriptions", second, CONNECTIONS, due)
                advance(3)
                due = rates.poisson(accepted / 2, REQUESTS_PER_RUN).tolist()
                in_bursts = await load.paced(port, tokens, "/v1/subscriptions", third, CONNECTIONS, due)
                advance(3)
    return {
        "accepted_per_s": round(accepted),
        "batched_per_s": round(batched),
        "batched_ratio": round(batched / accepted, 2),
        "p50_half_load_ms": round(evenly[len(evenly) // 2] * 1000, 2),
        "p99_half_load_ms": round(evenly[len(evenly) * 99 // 100] * 1000, 2),
        "poisson_p50_ms": round(in_bursts[len(in_bursts) // 2] * 1000, 2),
        "poisson_p99_ms": round(in_bursts[len(in_bursts) * 99 // 100] * 1000, 2),
    }


async def _events(advance: Callable[[float], None], *, event_tags: bool = True) -> dict[str, Any]:
    """From one end of three switches to the other, with 1,000 subscriptions there."""
    data = _workload(1_000, int(max(EVENT_RATES) * SECONDS_PER_RATE))
    topology = build("line:3")
    first, last = topology.hosts[0].name, topology.hosts[-1].name
    best = 0.0
    late: tuple[float | None, float | None] = (None, None)
    lost: dict[str, int] = {}
    async with embedded("line:3", event_tags=event_tags) as stage, stage.connect(first) as client:
        url, token = stage.url, stage.token
        await client.create_schema(data.schema)
        crowd = subscribers(url, token, data.schema.name, data.subscriptions, [last])
        async with crowd as members, await client.advertise(data.schema.name) as publisher:

            async def attempt(rate: float) -> tuple[float, int]:
                """The rate that was reached, and how many deliveries were missed or too many."""
                events = data.events[: int(rate * SECONDS_PER_RATE)]
                before, start = members.counts, time.perf_counter()
                sent = await send(publisher, events, rate)
                reached = sent / (time.perf_counter() - start)
                counts = (await members.when_quiet()).since(before)
                return reached, sum(difference(expected(data.subscriptions, events[:sent]), counts.by_subscription))

            await attempt(500)  # ways are found, codecs warmed up
            for rate in EVENT_RATES:
                reached, wrong = await attempt(rate)
                lost[str(rate)] = wrong
                advance(15 / len(EVENT_RATES))
                if wrong or reached < 0.9 * rate:
                    break
                best = reached
            seen: list[Any] = []
            reader = asyncio.create_task(_watch(lambda: members.counts.late_us, seen))
            _, wrong = await attempt(best / 2)
            reader.cancel()
            busy = sorted(each for each in seen if each[0] is not None)
            late = busy[len(busy) // 2] if busy else late
            lost["half"] = wrong
    return {
        "events_per_s": round(best),
        "wrong_deliveries": lost,
        "p50_us": None if late[0] is None else round(late[0]),
        "p99_us": None if late[1] is None else round(late[1]),
    }


async def _watch(look: Callable[[], Any], seen: list[Any]) -> None:
    while True:
        await asyncio.sleep(0.5)
        seen.append(look())


def _restart(advance: Callable[[float], None]) -> dict[str, Any]:
    """A controller of its own process, from nothing to all rules, with RESTART_SUBSCRIPTIONS subscriptions."""
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder), advance)
        arguments = [sys.executable, str(HERE / "_restart.py"), folder]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)  # noqa: S603
        seconds, registrations, memory, rules = json.loads(done.stdout)
    advance(10)
    return {
        "restart_s": round(seconds, 2),
        "restart_subscriptions": registrations - 1,
        "restart_rules": rules,
        "restart_memory_gib": round(memory, 2),
    }


def _fill(folder: Path, advance: Callable[[float], None], digest: str = "0" * 64) -> None:
    """What such a controller would have left behind; the digest is that of its administrator's token."""
    data = _workload(RESTART_SUBSCRIPTIONS, 1)
    topology, settings = build("testbed"), ControlSettings()
    state = ControlState(topology, settings)
    everything = filter_json.to_json(Filter.parse(data.schema, "true"))
    commands: list[Any] = [
        Begin(settings.to_json(), state.network),
        CreateSchema(data.schema),
        CreatePrincipal("root", "admin", digest, {}, {}, None),
        Register("advertisement", "root", topology.hosts[0].name, data.schema.name, everything),
    ]
    with SqliteLog.open(folder / LOG_FILE_NAME) as log:
        position = 0
        for command in commands:
            position += 1
            state.apply(position, command)
            log.append([log_body(command)])
        batch = []
        for number, wanted in enumerate(data.subscriptions):
            host = topology.hosts[number % len(topology.hosts)].name
            command = Register("subscription", "root", host, data.schema.name, filter_json.to_json(wanted))
            position += 1
            state.apply(position, command)
            batch.append(log_body(command))
            if len(batch) == 1000:
                log.append(batch)
                batch = []
                advance(30 * 1000 / RESTART_SUBSCRIPTIONS)
        log.append(batch)
        log.save_snapshot(Position(position), snapshot(state, KeptAnswers()))


def _module(name: str) -> ModuleType:
    """A file beside this one."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

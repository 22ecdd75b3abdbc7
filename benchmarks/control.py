"""The control plane on several processes: who does how much of the work, what netting saves, how long a takeover takes.

The same subscriptions are registered over HTTP, one by one, with one process on a log of its own, and with a process
that leads and 1, 2 and 4 gates on a log in a real etcd of three members. What counts is the CPU time of the busiest
process, as a share of what the one process takes: on this machine all of them share two cores, on several they do not.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from pleroma.content import Filter, filter_json
from pleroma.control.log.durable_log import Position
from pleroma.control.switch_batch import SwitchBatch
from pleroma.index import GridIndex
from pleroma.lab.etcd_cluster import EtcdCluster
from pleroma.routing import Advertise, HostId, Router, Subscribe, build
from pleroma.workloads import EXPRESSIVE, StockModel, Workload, generate, generate_stock

STEPS = 60
TOPOLOGY = "testbed"
WARM_UP_REQUESTS = 300
COUNTED_REQUESTS = 3_000
LOAD_CONNECTIONS = 64
GATES = (1, 2, 4)
NETTED_SUBSCRIPTIONS = 100
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    bodies = _bodies(generate_stock(StockModel(subscriptions=WARM_UP_REQUESTS + COUNTED_REQUESTS)))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        with _process(Path(folder) / "alone") as alone:
            one = _cpu_of_load([alone], [alone], bodies)
        advance(8)
        etcd = stack.enter_context(EtcdCluster.up(Path(folder) / "etcd"))
        advance(4)
        figures: dict[str, Any] = {"one_process": one, "busiest_share": {}, "lead_share": {}, "etcd_share": {}}
        for count in GATES:
            with ExitStack() as running:
                log = etcd.url(f"bench{count}")
                lead = running.enter_context(_process(Path(folder) / f"lead{count}", log))
                gates = [
                    running.enter_context(_process(Path(folder) / f"gate{count}-{each}", log, "gate", lead.token))
                    for each in range(count)
                ]
                members = [each.process.process for each in etcd.members.values() if each.process is not None]
                before = sum(map(_cpu_seconds, members))
                found = _cpu_of_load(gates, [lead, *gates], bodies)
                stored = sum(map(_cpu_seconds, members)) - before
            name = str(count)
            figures["busiest_share"][name] = _ratio(max(found["cpu_s"]), one["cpu_s"][0])
            figures["lead_share"][name] = _ratio(found["cpu_s"][0], one["cpu_s"][0])
            figures["etcd_share"][name] = _ratio(stored / len(members), one["cpu_s"][0])
            figures[f"with_{count}_gates"] = found
            advance(10)
        figures["takeover_s"] = _takeover(etcd, Path(folder))
        advance(8)
    figures["operations_saved"] = {
        "stock": asyncio.run(_saved(generate_stock(StockModel(subscriptions=1_000)))),
        "zipfian": asyncio.run(_saved(generate(EXPRESSIVE))),
    }
    return figures


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 3)


def _bodies(data: Workload) -> list[bytes]:
    hosts = [host.name for host in build(TOPOLOGY).hosts]
    return [
        json.dumps(
            {"schema": data.schema.name, "boxes": filter_json.to_json(wanted), "host": hosts[number % len(hosts)]}
        ).encode()
        for number, wanted in enumerate(data.subscriptions)
    ]


class _Service:
    def __init__(self, process: subprocess.Popen[str], url: str, folder: Path, token: str | None) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.token = token or (folder / "admin.token").read_text().strip()

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=30)


@contextmanager
def _process(
    folder: Path, log: str | None = None, roles: str | None = None, token: str | None = None
) -> Iterator[_Service]:
    """`pleroma up` as a process of its own, until it is left."""
    command = [sys.executable, "-m", "pleroma.cli", "up", "--topology", TOPOLOGY, "--folder", str(folder)]
    command += ["--port", "0", "--replan", "off", "--log-level", "error"]
    command += [] if log is None else ["--log", log]
    command += [] if roles is None else ["--roles", roles]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            url = ""
            for line in process.stdout:
                if found := re.search(r"listening on (http://\S+)", line):
                    url = found[1]
                if line.startswith("ready"):
                    break
            yield _Service(process, url, folder, token)
        finally:
            process.send_signal(signal.SIGTERM)


def _cpu_of_load(asked: Sequence[_Service], all_of_them: Sequence[_Service], bodies: Sequence[bytes]) -> dict[str, Any]:
    """Register the subscriptions at these services; the CPU seconds that each process took for the counted ones."""
    first, schema = all_of_them[0], generate_stock(StockModel(subscriptions=1)).schema
    assert first.ask("POST", "/v1/schemas", {"schema": schema.to_json()}).status_code == 201
    advertised = {"schema": schema.name, "filter": "true", "host": "h1"}
    assert first.ask("POST", "/v1/advertisements", advertised).status_code == 201
    load = _module("_http_load")

    async def send(some: Sequence[bytes]) -> None:
        parts = [some[number :: len(asked)] for number in range(len(asked))]
        clients = max(LOAD_CONNECTIONS // len(asked), 1)
        path = "/v1/subscriptions"
        await asyncio.gather(
            *(
                load.flat_out(each.port, each.token, path, part, clients)
                for each, part in zip(asked, parts, strict=True)
            )
        )

    asyncio.run(send(bodies[:WARM_UP_REQUESTS]))
    before = [_cpu_seconds(each.process.pid) for each in all_of_them]
    began = time.perf_counter()
    asyncio.run(send(bodies[WARM_UP_REQUESTS:]))
    seconds = time.perf_counter() - began
    spent = [_cpu_seconds(each.process.pid) - was for each, was in zip(all_of_them, before, strict=True)]
    return {"cpu_s": [round(each, 2) for each in spent], "accepted_per_s": round(COUNTED_REQUESTS / seconds)}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _takeover(etcd: EtcdCluster, folder: Path) -> float:
    """Seconds from kill -9 of the leading process until another has registered a subscription and its switches know."""
    log = etcd.url("takeover")
    schema = generate_stock(StockModel(subscriptions=1)).schema
    with _process(folder / "first", log) as first, _process(folder / "second", log, None, first.token) as second:
        assert first.ask("POST", "/v1/schemas", {"schema": schema.to_json()}).status_code == 201
        first.process.kill()
        began = time.perf_counter()
        asked = {"schema": schema.name, "filter": "true", "host": "h1", "key": "after"}
        while True:
            try:
                if second.ask("POST", "/v1/subscriptions", asked).status_code == 201:
                    return round(time.perf_counter() - began, 2)
            except httpx.HTTPError:
                pass
            time.sleep(0.02)


async def _saved(data: Workload) -> float:
    """The share of all operations that need not be sent if those of so many subscriptions are netted."""
    topology = build(TOPOLOGY)
    hosts = [host.name for host in topology.hosts]
    index = GridIndex.regular(data.schema, 24)
    router = Router(topology)
    router.apply(Advertise("a", HostId(hosts[0]), index.cover(Filter.everything(data.schema), max_members=8)))
    asked, sent = 0, 0
    batches: dict[str, SwitchBatch] = {}
    for number, wanted in enumerate(data.subscriptions[:1_000]):
        region = index.cover(wanted, max_members=8)
        ops = router.apply(Subscribe(f"s{number}", HostId(hosts[number % len(hosts)]), region))
        asked += len(ops)
        for op in ops:
            batches.setdefault(op.switch, SwitchBatch()).add(Position(number + 1), [op])
        if number % NETTED_SUBSCRIPTIONS == NETTED_SUBSCRIPTIONS - 1:
            sent += sum(map(len, batches.values()))
            batches = {}
    sent += sum(map(len, batches.values()))
    return round(1 - sent / asked, 3)


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

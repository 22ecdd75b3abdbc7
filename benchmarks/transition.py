"""Changing the plan: rules added, time and waste, light-weight against versioning, by rules per switch."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pleroma.content import Filter
from pleroma.content.filter_json import to_json
from pleroma.control import (
    ChangePlan,
    Controller,
    ControlSettings,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    Register,
)
from pleroma.experiments.plan_changes import Arrivals, tables_in_force
from pleroma.index import GridIndex
from pleroma.routing import AdmitOp, SwitchOp, Topology, build
from pleroma.switches import EmbeddedNetwork
from pleroma.workloads import EXPRESSIVE, Workload, generate

SIZES = {100: 26, 1_000: 262, 10_000: 2_620}
"""Rules per switch that events cross, and about how many subscriptions make so many."""
STEPS = 2 * len(SIZES)
BITS = 40
MEMBERS = 4
EVENTS = 5_000
WHO = "admin"


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    sizes: dict[str, dict[str, Any]] = {}
    for rules, subscriptions in SIZES.items():
        workload = generate(
            replace(EXPRESSIVE, width=0.02, subscriptions=subscriptions, events=EVENTS, placement="inside")
        )
        measured = {}
        for method in ("lightweight", "versioning"):
            measured[method] = asyncio.run(_measure(workload, method))
            advance(1)
        sizes[str(rules)] = measured
    middle = sizes["1000"]
    return {
        "lightweight_extra_share": middle["lightweight"]["extra_share"],
        "versioning_extra_share": middle["versioning"]["extra_share"],
        "sizes": sizes,
    }


class _Switches:
    """The embedded network as a controller's; notes how much its tables hold after each step."""

    def __init__(self, topology: Topology) -> None:
        self.network = EmbeddedNetwork(topology)
        self.sizes: list[int] = []
        self.after: Callable[[], None] = lambda: None

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        self.network.install([op for op in ops if not isinstance(op, AdmitOp)], atomic=True)
        self.sizes.append(sum(table.size for table in self.network.tables.values()))
        self.after()


async def _measure(workload: Workload, method: str) -> dict[str, Any]:
    topology, schema = build("testbed"), workload.schema
    settings = ControlSettings(schema_bits=1, max_members=MEMBERS, default_bits=BITS, max_length=BITS + 1)
    switches = _Switches(topology)
    hosts = [host.name for host in topology.hosts]
    homes = np.random.default_rng(0).integers(0, len(hosts), len(workload.subscriptions))
    arrivals = Arrivals(topology, workload.subscriptions, homes, EVENTS, np.random.default_rng(1))
    second = GridIndex.regular(schema, BITS, schema.names[: len(schema) // 2])
    with tempfile.TemporaryDirectory() as folder:
        async with await Controller.open(folder, topology, switches, settings) as controller:
            controller.transitions.under_way = controller.transitions.unleased = 0.0
            await controller.submit(CreateSchema(schema))
            await controller.submit(CreatePrincipal(WHO, "admin", "0" * 64))
            wishes = [("advertisement", host, Filter.everything(schema)) for host in hosts]
            wishes += [
                ("subscription", hosts[home], wanted)
                for home, wanted in zip(homes.tolist(), workload.subscriptions, strict=True)
            ]
            requests = (Register(kind, WHO, host, schema.name, to_json(wanted)) for kind, host, wanted in wishes)  # type: ignore[arg-type]
            await asyncio.gather(*map(controller.submit, requests))
            before = sum(table.size for table in switches.network.tables.values())
            used = sum(table.size > 0 for table in switches.network.tables.values())
            waste = _Waste(controller.state, arrivals, workload)
            waste.note()
            waste.seconds = 0.0
            switches.sizes.clear()
            switches.after = waste.note
            start = time.perf_counter()
            await controller.transitions.change(ChangePlan(schema.name, second, method))
            seconds = time.perf_counter() - start - waste.seconds
            waste.note()
    return {
        "rules_per_switch": round(before / used),
        "extra_share": round((switches.sizes[0] - before) / before, 4),
        "peak_rules": max(switches.sizes),
        "rules_after": switches.sizes[-1],
        "seconds": round(seconds, 3),
        "waste_before": round(waste.shares[0], 4),
        "waste_during": round(max(waste.shares[1:-2]), 4),
        "waste_after": round(waste.shares[-1], 4),
        "lost": waste.lost,
    }


class _Waste:
    """What events sent at this moment would waste and lose; the time it takes is not that of the change."""

    def __init__(self, state: ControlState, arrivals: Arrivals, workload: Workload) -> None:
        self.shares: list[float] = []
        self.lost = 0
        self.seconds = 0.0
        self._state = state
        self._arrivals = arrivals
        self._events = workload.events

    def note(self) -> None:
        start = time.perf_counter()
        entry = next(iter(self._state.schemas.values()))
        tables = tables_in_force(self._state)
        self._arrivals.pass_by(tables, entry.index, self._events, entry.prefix)
        self.shares.append(float(self._arrivals.waste[-1]))
        self.lost += int(self._arrivals.lost[-1] > 0)
        self.seconds += time.perf_counter() - start

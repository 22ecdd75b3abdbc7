"""Changing the plan: rules added, time and waste, light-weight against versioning, by rules per switch.

Then a learned tree is grown anew as a whole and in one part, and what that moves is compared.
"""

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
    AdoptPlan,
    ChangePlan,
    Controller,
    ControlSettings,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    PlanChangeTiming,
    Register,
)
from pleroma.evaluation.sample import Sample
from pleroma.experiments.figures.one_schema_controller import tables_in_force
from pleroma.experiments.figures.waste_over_time import Arrivals
from pleroma.index import Dz, GridIndex, Index, TreeIndex
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn, regrown
from pleroma.routing import AdmitOp, SwitchOp, Topology, build
from pleroma.switches import EmbeddedNetwork
from pleroma.workloads import EXPRESSIVE, Workload, generate

SIZES = {100: 26, 1_000: 262, 10_000: 2_620}
"""Rules per switch that events cross, and about how many subscriptions make so many."""
STEPS = 2 * len(SIZES) + 4
BITS = 40
MEMBERS = 4
EVENTS = 5_000
REGROWN, LEAVES, PART = 1_000, 2_048, 16
"""Subscriptions for about 1,000 rules per switch, with a tree of so many leaves; its part has one in so many."""
WHO = "admin"


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    sizes: dict[str, dict[str, Any]] = {}
    for rules, subscriptions in SIZES.items():
        workload = _workload(subscriptions, 0.02)
        first, second = (
            GridIndex.regular(workload.schema, BITS, names)
            for names in (workload.schema.names, workload.schema.names[: len(workload.schema) // 2])
        )
        measured = {}
        for method in ("lightweight", "versioning"):
            measured[method] = asyncio.run(_measure(workload, first, second, method, MEMBERS))
            advance(1)
        sizes[str(rules)] = measured
    middle = sizes["1000"]
    local = _regrowth(advance)
    return {
        "lightweight_extra_share": middle["lightweight"]["extra_share"],
        "versioning_extra_share": middle["versioning"]["extra_share"],
        "regrowth_operations_ratio": round(
            local["whole lightweight"]["operations"] / max(local["part lightweight"]["operations"], 1), 1
        ),
        "sizes": sizes,
        "regrowth": local,
    }


def _workload(subscriptions: int, width: float) -> Workload:
    return generate(replace(EXPRESSIVE, width=width, subscriptions=subscriptions, events=EVENTS, placement="inside"))


def _regrowth(advance: Callable[[float], None]) -> dict[str, Any]:
    """A tree learned from half of the events, grown anew from the others: all of it, or one part."""
    workload = _workload(REGROWN, 0.1)
    past, later = (Sample.of(part, workload.subscriptions) for part in (workload.events[::2], workload.events[1::2]))
    first = learn(past, BITS, Budget(leaves=LEAVES), smoothing="as seen").index
    whole = learn(later, BITS, Budget(leaves=LEAVES), smoothing="as seen").index
    at = _part(first, LEAVES // PART)
    part = regrown(first, at, later, Budget(leaves=first.subtree(at).leaves))
    measured = {}
    for name, second in (("whole", whole), ("part", part)):
        for method in ("lightweight", "versioning"):
            measured[f"{name} {method}"] = asyncio.run(_measure(workload, first, second, method, LEAVES))
            advance(1)
    return measured


def _part(tree: TreeIndex, leaves: int) -> Dz:
    """The node of at most so many leaves that has the most."""
    layout = tree.layout
    sizes = [(end - node + 1) // 2 for node, end in enumerate(layout.end)]
    found = max((node for node, size in enumerate(sizes) if size <= leaves), key=lambda node: sizes[node])
    return Dz(layout.codes[found])


class _Switches:
    """The embedded network as a controller's; notes how much its tables hold after each step."""

    def __init__(self, topology: Topology) -> None:
        self.network = EmbeddedNetwork(topology)
        self.sizes: list[int] = []
        self.operations = 0
        self.after: Callable[[], None] = lambda: None

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        self.operations += len(ops)
        self.network.install([op for op in ops if not isinstance(op, AdmitOp)], atomic=True)
        self.sizes.append(sum(table.size for table in self.network.tables.values()))
        self.after()


async def _measure(workload: Workload, first: Index, second: Index, method: str, members: int) -> dict[str, Any]:
    topology, schema = build("testbed"), workload.schema
    settings = ControlSettings(schema_bits=1, max_members=members, default_bits=8, max_length=BITS + 1)
    switches = _Switches(topology)
    hosts = [host.name for host in topology.hosts]
    homes = np.random.default_rng(0).integers(0, len(hosts), len(workload.subscriptions))
    arrivals = Arrivals(topology, workload.subscriptions, homes, EVENTS, np.random.default_rng(1))
    with tempfile.TemporaryDirectory() as folder:
        timing = PlanChangeTiming(in_flight_seconds=0.0, unleased_seconds=0.0)
        async with await Controller.open(folder, topology, switches, settings, timing=timing) as controller:
            await controller.submit(CreateSchema(schema))
            await controller.submit(CreatePrincipal(WHO, "admin", "0" * 64))
            await controller.submit(AdoptPlan(schema.name, first))
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
            switches.operations = 0
            switches.after = waste.note
            start = time.perf_counter()
            await controller.plan_changes.change(ChangePlan(schema.name, second, method))
            seconds = time.perf_counter() - start - waste.seconds
            waste.note()
    return {
        "rules_per_switch": round(before / used),
        "extra_share": round((switches.sizes[0] - before) / before, 4),
        "peak_rules": max(switches.sizes),
        "rules_after": switches.sizes[-1],
        "operations": switches.operations,
        "events_detoured": round(waste.detoured, 4),
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
        self.detoured = 0.0
        """The share of events that meet a detour while there are any."""
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
        change = self._state.plans.change
        if change is not None and change.method == "lightweight":
            codes = entry.index.encode(self._events.points())
            inside = [change.area.covers(entry.prefix.then(dz)) for dz in codes.dz_of(range(len(codes)))]
            self.detoured = max(self.detoured, sum(inside) / len(inside))
        self.seconds += time.perf_counter() - start

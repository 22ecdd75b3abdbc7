"""Changing the plan: rules added, room, time and waste, light-weight against versioning, by rules per switch.

Then one hotspot moves, a learned tree is grown anew as a whole and where it has aged, and what that moves is compared.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from pleroma.arrays.types import Ints
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
from pleroma.errors import SetupError
from pleroma.evaluation.placement import spread_of
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of
from pleroma.experiments.figures.one_schema_controller import tables_in_force
from pleroma.experiments.figures.table_peaks import CountedSwitches
from pleroma.experiments.figures.waste_over_time import Arrivals
from pleroma.index import GridIndex, Index
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.learning.local_growth import grown_where_better
from pleroma.routing import AdmitOp, SwitchOp, Topology, build
from pleroma.switches import EmbeddedNetwork
from pleroma.workloads import EXPRESSIVE, Workload, generate
from pleroma.workloads.hotspot_drift import hotspot_moved

SIZES = {100: 26, 1_000: 262, 4_000: 1_048, 10_000: 2_620}
"""Rules per switch that events cross, and about how many subscriptions make so many."""
PEAK_SIZES = (4_000, 10_000)
"""Rules per switch at which the room of a change is told: with fewer, all changes of a switch are one bundle or two."""
STEPS = 2 * len(SIZES) + 4
BITS = 40
MEMBERS = 4
EVENTS = 5_000
DRIFTING = replace(
    EXPRESSIVE, distribution="zipfian", width=0.02, placement="inside", subscriptions=1_000, events=30_000
)
DRIFTED_RANK, DRIFTED_SEED = 2, 7
"""The hotspot that moves, the third in popularity, and the model that tells where to."""
LEARNED, JUDGED = 20_000, 3_000
"""Events that trees are learned from, and events that tell where a tree has aged."""
TREE_RULES, TREE_MEMBERS = 1_000, 4_096
"""The rules of the fullest switch that trees are learned for, and dz enough for covers as fine as the tree."""
TOPOLOGY = "testbed"
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
    return {
        "lightweight_extra_share": middle["lightweight"]["extra_share"],
        "versioning_extra_share": middle["versioning"]["extra_share"],
        "peak_share": max(sizes[str(size)]["lightweight"]["peak_share"] for size in PEAK_SIZES),
        "versioning_peak_share": max(sizes[str(size)]["versioning"]["peak_share"] for size in PEAK_SIZES),
        **_regrowth(advance),
        "sizes": sizes,
    }


def _workload(subscriptions: int, width: float) -> Workload:
    return generate(replace(EXPRESSIVE, width=width, subscriptions=subscriptions, events=EVENTS, placement="inside"))


def _regrowth(advance: Callable[[float], None]) -> dict[str, Any]:
    """A tree from before one hotspot moved, grown anew as a whole or where it has aged."""
    drift = hotspot_moved(DRIFTING, DRIFTED_RANK, DRIFTED_SEED)
    spread, homes = spread_of(build(TOPOLOGY)), _homes(build(TOPOLOGY), DRIFTING.subscriptions)
    parts = (drift.events[:LEARNED], drift.events[LEARNED : LEARNED + JUDGED], drift.events[-EVENTS:])
    sample, judging, unseen = (Sample.of(part, drift.subscriptions).grouped(homes) for part in parts)
    past = Sample.of(drift.before.events[:LEARNED], drift.before.subscriptions).grouped(homes)
    budget = Budget(rules=TREE_RULES)
    first = learn(past, BITS, budget, spread=spread).index
    started = time.perf_counter()
    whole = learn(sample, BITS, budget, spread=spread)
    learned = time.perf_counter()
    local = grown_where_better(
        first, whole.index, sample, judging, budget, spread=spread, smoothing=whole.smoothing, patient=whole.patient
    )
    grown = time.perf_counter()
    if local is None:
        raise SetupError("the tree has aged everywhere: there is no drift in one place to measure")
    workload = Workload(drift.events.schema, parts[2], drift.subscriptions)
    measured = {}
    for name, second in (("whole", whole.index), ("local", local.index)):
        for method in ("lightweight", "versioning"):
            measured[f"{name} {method}"] = asyncio.run(_measure(workload, first, second, method, TREE_MEMBERS))
            advance(1)
    before, after, ours = (deliveries_of(tree, unseen) for tree in (first, whole.index, local.index))
    ratios = {
        key: round(measured["whole lightweight"][key] / measured["local lightweight"][key], 1)
        for key in ("operations", "events_detoured")
    }
    return {
        "regrowth_operations_ratio": ratios["operations"],
        "regrowth_detoured_ratio": ratios["events_detoured"],
        "saved_share": round((before - ours) / (before - after), 3),
        "regrowth": {
            **measured,
            "learn_whole_s": round(learned - started, 2),
            "grow_local_s": round(grown - learned, 2),
            "nodes": len(local.nodes),
            "traffic_share": round(local.traffic, 4),
            "rules": {"limit": TREE_RULES, "whole": whole.rules, "local": local.rules},
            "leaves": {"before": first.leaves, "whole": whole.index.leaves, "local": local.index.leaves},
            "deliveries": {"before": before, "whole": after, "local": ours},
        },
    }


def _homes(topology: Topology, subscriptions: int) -> Ints:
    return np.random.default_rng(0).integers(0, len(topology.hosts), subscriptions)


class _Switches:
    """The embedded network as a controller's, beside switches that count their rules at any moment."""

    def __init__(self, topology: Topology, counted: CountedSwitches) -> None:
        self.network = EmbeddedNetwork(topology)
        self.sizes: list[int] = []
        """Rules of all tables after each step."""
        self.operations = 0
        self.after: Callable[[], None] = lambda: None
        self._counted = counted
        self._to_count: list[Sequence[SwitchOp]] = []
        self._is_stepping = False

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """All switches that a step concerns are told in one turn of the event loop, each by a call of its own."""
        self.operations += len(ops)
        self.network.install([op for op in ops if not isinstance(op, AdmitOp)], atomic=True)
        self._to_count.append(ops)
        if not self._is_stepping:
            self._is_stepping = True
            asyncio.get_running_loop().call_soon(self._stepped)

    def _stepped(self) -> None:
        self._is_stepping = False
        self.sizes.append(sum(table.size for table in self.network.tables.values()))
        self.after()

    async def count(self) -> None:
        """Have the agents send what was installed. That takes time of its own, which is not that of the change."""
        for ops in self._to_count:
            await self._counted.install(ops)
        self._to_count.clear()


async def _measure(workload: Workload, first: Index, second: Index, method: str, members: int) -> dict[str, Any]:
    topology, schema = build(TOPOLOGY), workload.schema
    settings = ControlSettings(schema_bits=1, max_members=members, default_bits=8, max_length=BITS + 1)
    hosts = [host.name for host in topology.hosts]
    homes = _homes(topology, len(workload.subscriptions))
    arrivals = Arrivals(topology, workload.subscriptions, homes, EVENTS, np.random.default_rng(1))
    timing = PlanChangeTiming(in_flight_seconds=0.0, unleased_seconds=0.0)
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            counted = await stack.enter_async_context(CountedSwitches(topology))
            switches = _Switches(topology, counted)
            opened = await Controller.open(folder, topology, switches, settings, timing=timing)
            controller = await stack.enter_async_context(opened)
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
            await switches.count()
            counted.begin()
            switches.after = waste.note
            start = time.perf_counter()
            await controller.plan_changes.change(ChangePlan(schema.name, second, method))
            seconds = time.perf_counter() - start - waste.seconds
            await switches.count()
            peaks = counted.peaks.values()
            waste.note()
    return {
        "rules_per_switch": round(before / used),
        "extra_share": round((switches.sizes[0] - before) / before, 4),
        "peak_rules": max(peak.most for peak in peaks),
        "peak_share": round(max(peak.share for peak in peaks), 4),
        "rules_after": switches.sizes[-1],
        "operations": switches.operations,
        "events_detoured": round(waste.detoured, 4),
        "seconds": round(seconds, 3),
        "waste_before": round(waste.shares[0], 4),
        "waste_during": round(max(waste.shares[1:-2], default=waste.shares[0]), 4),
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

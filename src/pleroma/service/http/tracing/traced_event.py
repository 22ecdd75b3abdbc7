"""The ways of an event through the network: by the plan in force and, while it changes, by the other plan too.

Publishers use either of the two plans during a change, so an event has a dz by each. An event is followed through the
rules that the controller wants, or (`live`) through those that the switches on the way have, which are read for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pleroma.content import Event
from pleroma.control import ControlState, Registered, SchemaEntry
from pleroma.index import Dz, DzSet
from pleroma.routing import Flow, HostId, Output, SwitchId
from pleroma.service.http.data_plane import DataPlane
from pleroma.switches.tracing.event_trace import Trace, Wires, on_the_wire, shared_bits, trace
from pleroma.switches.tracing.examined_step import ExaminedStep, examine
from pleroma.switches.tracing.meeting import MetRule, SwitchRules, TracedTables
from pleroma.switches.tracing.wanted_rules import wanted_rules

READ_SECONDS = 3.0
"""In which a switch has to tell its rules; else it counts as not answering. With 10,000 rules it takes about one."""
MAX_NEAR_CELLS = 3
"""Admitted cells that are nearest to an event which is not admitted."""

MAX_TREE_CELLS = 8
"""Cells of a tree that are shown."""

PlanRole = Literal["in_force", "next", "last"]


@dataclass(frozen=True, slots=True)
class TracedWay:
    """The way of one dz of the event: as it is followed, step by step, and by the rules wanted."""

    trace: Trace
    steps: tuple[ExaminedStep, ...]
    wanted: Trace
    admitted_by: MetRule | None
    """The wanted rule that lets the event in at its host's port."""
    near_cells: tuple[Dz, ...]
    tree: dict[str, Any] | None

    def to_json(self, epoch: int, plan: PlanRole) -> dict[str, Any]:
        cell = None if self.admitted_by is None else self.admitted_by.dz
        return {
            "epoch": epoch,
            "plan": plan,
            "host": self.trace.host,
            "dz": str(self.trace.dz),
            "tree": self.tree,
            "admission": {
                "admitted": self.admitted_by is not None,
                "cell": None if cell is None else str(cell),
                "near": [str(each) for each in self.near_cells],
            },
            "steps": [_step_json(each) for each in self.steps],
            "receivers": list(self.trace.receivers),
            "looped": self.trace.looped,
        }


@dataclass(frozen=True, slots=True)
class PlanTrace:
    """An event by one plan. A quiet index has no dz for some events: then there are no ways."""

    epoch: int
    plan: PlanRole
    ways: tuple[TracedWay, ...]
    dzs: tuple[Dz, ...]
    regions: Mapping[str, DzSet]
    """The regions by this plan that differ from those in force, by registration."""

    @property
    def receivers(self) -> set[HostId]:
        return {receiver for way in self.ways for receiver in way.trace.receivers}

    def covers(self, registered: Registered) -> bool:
        """Whether the region of a registration by this plan has a dz of the event in it."""
        region = self.regions.get(registered.id, registered.region)
        return any(region.covers(dz) for dz in self.dzs)


class EventTracer:
    """Traces events through the network as it is now."""

    def __init__(self, state: ControlState, plane: DataPlane, *, live: bool) -> None:
        self._state = state
        self._plane = plane
        self._live = live
        self._found: dict[SwitchId, SwitchRules | None] = {}
        """Rules that were read; None of a switch that does not answer."""

    async def by_all_plans(self, entry: SchemaEntry, event: Event, host: HostId | None) -> list[PlanTrace]:
        """The event by the plan in force, and by the other plan of a change that is under way."""
        change = self._state.plans.change
        dzs = tuple(entry.prefix.then(dz) for dz in entry.index.dzs(event))
        plans: list[tuple[int, PlanRole, tuple[Dz, ...], Mapping[str, DzSet]]] = [(entry.epoch, "in_force", dzs, {})]
        if change is not None and change.entry is entry:
            other, role = change.other_plan, "next" if change.phase == "prepared" else "last"
            others = tuple(change.prefix.then(dz) for dz in other.index.dzs(event))
            plans.append((other.epoch, "next" if role == "next" else "last", others, dict(change.other)))
        traced = []
        for epoch, plan, cells, regions in plans:
            ways = () if host is None else tuple([await self._way(host, dz) for dz in cells])
            traced.append(PlanTrace(epoch, plan, ways, cells, regions))
        return traced

    async def _way(self, host: HostId, dz: Dz) -> TracedWay:
        if not self._plane.forwards_by_rules:
            reached = Trace(host, dz, (), (host,))
            return TracedWay(reached, (), reached, MetRule("cell", dz), (), None)
        wires = Wires(self._plane.topology(), self._plane.presence())
        if host not in wires.topology.host:
            away = Trace(host, dz, (), (), is_away=True)
            return TracedWay(away, (), away, None, (), None)
        if self._live:
            await self._read_along(wires, host, dz)
        wanted = self._wanted(wires)
        by_wanted = trace(wires, wanted, host, dz)
        followed = by_wanted
        if self._live:
            there = {switch: rules for switch, rules in self._found.items() if rules is not None}
            followed = trace(wires, {**wanted, **there}, host, dz)
        event = on_the_wire(dz)
        place = wires.topology.host[host]
        steps = tuple(
            examine(
                step,
                event,
                wanted[step.switch],
                self._plane.standing(step.switch, step.in_port, event),
                self._found.get(step.switch),
                live=self._live,
            )
            for step in followed.steps
        )
        admission = wanted[place.switch].meet(place.port, event).admitted_by
        near = () if admission is not None else _nearest_cells(wanted[place.switch].cells(place.port) or (), event)
        return TracedWay(followed, steps, by_wanted, admission, near, self._tree(dz))

    def _wanted(self, wires: Wires) -> Mapping[SwitchId, TracedTables]:
        rules = self._state.rules
        return wanted_rules(wires.topology, rules.router, rules.detours, rules.admissions)

    async def _read_along(self, wires: Wires, host: HostId, dz: Dz) -> None:
        """Read the rules of all switches on the way of the event: by the rules wanted, and by those that are found."""
        while True:
            wanted = self._wanted(wires)
            there = {switch: rules for switch, rules in self._found.items() if rules is not None}
            ways = trace(wires, wanted, host, dz), trace(wires, {**wanted, **there}, host, dz)
            unread = {step.switch for way in ways for step in way.steps} - self._found.keys()
            if not unread:
                return
            asked = sorted(unread)
            answers = await asyncio.gather(*(self._plane.read_rules(switch, READ_SECONDS) for switch in asked))
            self._found.update(zip(asked, answers, strict=True))

    def _tree(self, dz: Dz) -> dict[str, Any] | None:
        """Which of several trees the event travels on; None where there is one tree for everything."""
        families = self._state.router.families
        if len(families) < 2:
            return None
        for number, family in enumerate(families, 1):
            if family.region.covers(on_the_wire(dz)):
                cells = [str(cell) for cell in islice(family.region, MAX_TREE_CELLS)]
                return {"number": number, "of": len(families), "cells": len(family.region), "first_cells": cells}
        return None


def _nearest_cells(cells: Iterable[Dz], event: Dz) -> tuple[Dz, ...]:
    return tuple(sorted(cells, key=lambda dz: (-shared_bits(dz, event), dz.length, dz))[:MAX_NEAR_CELLS])


def _step_json(examined: ExaminedStep) -> dict[str, Any]:
    step = examined.step
    meeting = step.meeting
    followed = None if meeting is None else meeting.followed
    return {
        "switch": step.switch,
        "from": step.came_from,
        "in_port": step.in_port,
        "standing": examined.standing,
        "refusal": examined.refusal,
        "follows": None if followed is None else followed.kind,
        "rule": None if followed is None else _rule_json(followed),
        "coarser": examined.needless is not None,
        "needless_ports": list(examined.needless or ()),
        "dropped": examined.dropped,
        "outputs": [output._asdict() for output in step.outputs],
        "near": [_flow_json(flow) | {"shared": shared} for flow, shared in step.near],
        "differences": [difference._asdict() for difference in examined.differences],
    }


def _rule_json(rule: MetRule) -> dict[str, Any]:
    return {"dz": None if rule.dz is None else str(rule.dz), "outputs": _outputs_json(rule.outputs), "text": rule.text}


def _flow_json(flow: Flow) -> dict[str, Any]:
    return {"dz": str(flow.dz), "outputs": _outputs_json(flow.outputs)}


def _outputs_json(outputs: Iterable[Output]) -> list[dict[str, Any]]:
    return [output._asdict() for output in outputs]

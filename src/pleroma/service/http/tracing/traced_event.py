"""The ways of an event through the network: by the plan in force and, while it changes, by the other plan too.

Publishers use either of the two plans during a change, so an event has a dz by each. An event is followed through the
rules that the controller wants, or (`live`) through those that the switches on the way have, which are read for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from pleroma.content import Event
from pleroma.control import ControlState, Registered, SchemaEntry
from pleroma.index import Dz, DzSet
from pleroma.routing import Flow, HostId, Output, SwitchId
from pleroma.service.http.data_plane import DataPlane
from pleroma.switches.tracing.event_trace import NearMiss, Trace, Wires, nearest, on_the_wire, shared_bits, trace
from pleroma.switches.tracing.examined_step import ExaminedStep, examine
from pleroma.switches.tracing.meeting import MetRule, SwitchRules, SwitchStanding, TracedTables
from pleroma.switches.tracing.wanted_rules import wanted_rules

READ_SECONDS = 3.0
"""In which a switch has to tell its rules; else it counts as not answering. With 10,000 rules it takes about one."""
MAX_READINGS = 3
"""How often switches are read if what they are to have changes in the meantime."""
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
    near_rules: tuple[tuple[NearMiss, ...], ...]
    """For each step: the rules that nearly match, if the event is admitted there."""
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
            "steps": [_step_json(*each) for each in zip(self.steps, self.near_rules, strict=True)],
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
        if host is not None and self._live and self._plane.forwards_by_rules:
            await self._read_along(entry, event, host)
        plans = self._plans(entry, event)
        ways = [[] if host is None else [self._way(host, dz) for dz in plan.dzs] for plan in plans]
        return [
            replace(plan, ways=tuple([await self._with_near_rules(way) for way in its]))
            for plan, its in zip(plans, ways, strict=True)
        ]

    def _plans(self, entry: SchemaEntry, event: Event) -> list[PlanTrace]:
        """The plans that publishers may use now, without the ways."""
        change = self._state.plans.change
        dzs = tuple(entry.prefix.then(dz) for dz in entry.index.dzs(event))
        plans = [PlanTrace(entry.epoch, "in_force", (), dzs, {})]
        if change is not None and change.entry is entry:
            other, role = change.other_plan, "next" if change.phase == "prepared" else "last"
            others = tuple(change.prefix.then(dz) for dz in other.index.dzs(event))
            plans.append(PlanTrace(other.epoch, "next" if role == "next" else "last", (), others, dict(change.other)))
        return plans

    def _way(self, host: HostId, dz: Dz) -> TracedWay:
        if not self._plane.forwards_by_rules:
            reached = Trace(host, dz, (), (host,))
            return TracedWay(reached, (), (), reached, MetRule("cell", dz), (), None)
        wires = self._wires
        if host not in wires.topology.host:
            away = Trace(host, dz, (), (), is_away=True)
            return TracedWay(away, (), (), away, None, (), None)
        wanted = self._wanted(wires)
        by_wanted = trace(wires, wanted, host, dz)
        followed = trace(wires, {**wanted, **self._answered}, host, dz) if self._live else by_wanted
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
        return TracedWay(followed, steps, (), by_wanted, admission, near, self._tree(dz))

    async def _with_near_rules(self, way: TracedWay) -> TracedWay:
        """With the rules that nearly match at each step. A switch may have many rules: one switch at a time."""
        wanted, event, found = self._wanted(self._wires), on_the_wire(way.trace.dz), []
        for each in way.steps:
            await asyncio.sleep(0)
            step, rules = each.step, self._answered.get(each.step.switch, wanted.get(each.step.switch))
            is_admitted = step.meeting is not None and step.meeting.admitted_by is not None
            found.append(nearest(rules.forwarding(), event) if is_admitted and rules is not None else ())
        return replace(way, near_rules=tuple(found))

    @property
    def _wires(self) -> Wires:
        return Wires(self._plane.topology(), self._plane.presence())

    def _wanted(self, wires: Wires) -> Mapping[SwitchId, TracedTables]:
        rules = self._state.rules
        return wanted_rules(wires.topology, rules.router, rules.detours, rules.admissions)

    @property
    def _answered(self) -> Mapping[SwitchId, SwitchRules]:
        """The rules of the switches that were read and answered."""
        return {switch: rules for switch, rules in self._found.items() if rules is not None}

    async def _read_along(self, entry: SchemaEntry, event: Event, host: HostId) -> None:
        """Read the rules of all switches on the ways of the event: by the rules wanted, and by those that are found.

        What is wanted and confirmed there may change meanwhile. Then the switches are read again, since the rules that
        were found are none to compare it with.
        """
        for _ in range(MAX_READINGS):
            self._found.clear()
            before = self._expected(entry, event, host)
            while unread := self._switches_on_the_way(entry, event, host) - self._found.keys():
                asked = sorted(unread)
                answers = await asyncio.gather(*(self._plane.read_rules(switch, READ_SECONDS) for switch in asked))
                self._found.update(zip(asked, answers, strict=True))
                await self._meet_found(entry, event, host)
            if self._expected(entry, event, host) == before:
                return

    async def _meet_found(self, entry: SchemaEntry, event: Event, host: HostId) -> None:
        """Find the rules that the event meets where it is expected, in a thread: there may be many to look through."""
        for way in self._traces(entry, event, host, {}):
            for step in way.steps:
                if step.switch in self._answered:
                    await asyncio.to_thread(self._answered[step.switch].meet, step.in_port, on_the_wire(way.dz))

    def _traces(
        self, entry: SchemaEntry, event: Event, host: HostId, found: Mapping[SwitchId, SwitchRules]
    ) -> list[Trace]:
        """By all plans, by the rules found and, where there are none, by those wanted."""
        wires = self._wires
        if host not in wires.topology.host:
            return []
        rules = {**self._wanted(wires), **found}
        return [trace(wires, rules, host, dz) for plan in self._plans(entry, event) for dz in plan.dzs]

    def _switches_on_the_way(self, entry: SchemaEntry, event: Event, host: HostId) -> set[SwitchId]:
        ways = self._traces(entry, event, host, {}) + self._traces(entry, event, host, self._answered)
        return {step.switch for way in ways for step in way.steps}

    def _expected(self, entry: SchemaEntry, event: Event, host: HostId) -> list[tuple[Trace, list[SwitchStanding]]]:
        """The ways by the rules wanted, and how much of that the switches have confirmed."""
        return [
            (way, [self._plane.standing(each.switch, each.in_port, on_the_wire(way.dz)) for each in way.steps])
            for way in self._traces(entry, event, host, {})
        ]

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


def _step_json(examined: ExaminedStep, near: Iterable[NearMiss]) -> dict[str, Any]:
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
        "near": [_flow_json(flow) | {"shared": shared} for flow, shared in near],
        "differences": [difference._asdict() for difference in examined.differences],
    }


def _rule_json(rule: MetRule) -> dict[str, Any]:
    return {"dz": None if rule.dz is None else str(rule.dz), "outputs": _outputs_json(rule.outputs), "text": rule.text}


def _flow_json(flow: Flow) -> dict[str, Any]:
    return {"dz": str(flow.dz), "outputs": _outputs_json(flow.outputs)}


def _outputs_json(outputs: Iterable[Output]) -> list[dict[str, Any]]:
    return [output._asdict() for output in outputs]

"""What a change of plans costs while it lasts (Bhowmik et al. 2018, V and VI): rules in the switches, and waste on the
links.

Both come from the state of a controller that takes the steps; nothing is assumed about them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.content.filter_json import to_json
from pleroma.control import (
    Advance,
    ChangePlan,
    Command,
    CommandRefused,
    ControlSettings,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    Register,
)
from pleroma.evaluation.sample import Sample
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.index import ROOT, Dz, DzSet, GridIndex, Index
from pleroma.index.codes import WORD_BITS, Codes
from pleroma.matching import wanted_by
from pleroma.routing import FlowTable, SwitchId, Topology, build
from pleroma.selection.dimension_selection import Evidence, select
from pleroma.selection.splits import SPLITS
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.switches import forward
from pleroma.workloads import Model, generate

PLAN_CHANGE_TOPOLOGY = "testbed"
ADMIN_PRINCIPAL = "admin"


class RuleTotals(NamedTuple):
    """How many all switches have, ordinary ones and detours."""

    ordinary: int
    detours: int

    @property
    def all(self) -> int:
        return self.ordinary + self.detours


class OneSchemaController:
    """The state of a controller for one schema, whose events everybody publishes."""

    def __init__(self, topology: Topology, schema: Schema, bits: int, members: int, prefix_bits: int = 1) -> None:
        length = prefix_bits + bits
        settings = ControlSettings(schema_bits=prefix_bits, max_members=members, default_bits=bits, max_length=length)
        self.topology = topology
        self.state = ControlState(topology, settings)
        self._schema = schema
        self._position = 0
        self._do(CreateSchema(schema))
        self._do(CreatePrincipal(ADMIN_PRINCIPAL, "admin", "0" * 64))
        for host in topology.hosts:
            self._register("advertisement", host.name, Filter.everything(schema))

    def subscribe(self, wanted: Iterable[Filter], homes: Iterable[int]) -> None:
        hosts = [host.name for host in self.topology.hosts]
        for each, home in zip(wanted, homes, strict=True):
            self._register("subscription", hosts[home], each)

    def begin(self, index: Index, method: str) -> None:
        self._do(ChangePlan(self._schema.name, index, method))

    def advance(self, step: str) -> None:
        self._do(Advance(self._schema.name, step))

    def change(self, index: Index, method: str) -> list[RuleTotals]:
        """The rules before, when all is prepared, after the swap, and in the end."""
        steps = [self.rules]
        self.begin(index, method)
        steps.append(self.rules)
        for step in ("swap", "clear"):
            self.advance(step)
            steps.append(self.rules)
        return steps

    @property
    def rules(self) -> RuleTotals:
        ordinary, detours = self.state.router.tables, self.state.rules.detours.tables
        return RuleTotals(sum(map(len, ordinary.values())), sum(map(len, detours.values())))

    @property
    def tables(self) -> Mapping[SwitchId, FlowTable]:
        return tables_in_force(self.state)

    def _register(self, kind: str, host: str, wanted: Filter) -> None:
        kinds: Mapping[str, Command] = {
            each: Register(each, ADMIN_PRINCIPAL, host, self._schema.name, to_json(wanted))
            for each in ("advertisement", "subscription")
        }
        self._do(kinds[kind])

    def _do(self, command: Command) -> None:
        self._position += 1
        result = self.state.apply(self._position, command)
        if isinstance(result, CommandRefused):
            raise result.error


def tables_in_force(state: ControlState) -> Mapping[SwitchId, FlowTable]:
    """What events follow: where there is a detour, nothing else."""
    detours, rules = state.rules.detours.tables, state.router.tables
    return {switch: _below(detours[switch], rules[switch]) for switch in rules}


def _below(detours: FlowTable, rules: FlowTable) -> FlowTable:
    area = DzSet(flow.dz for flow in detours)
    return FlowTable([*(flow for flow in rules if not area.covers(flow.dz)), *detours]) if area else rules


# -- figure 10 -------------------------------------------------------------------------------------------------------

LIGHTWEIGHT, VERSIONING = "light-weight", "versioning"


@dataclass(frozen=True, slots=True)
class AdditionalRules:
    """Rules that a change adds before any go, by the number of rules there are."""

    figure: str
    title: str
    model: Model
    bits: int
    counts: tuple[int, ...]
    members: int = 4

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        counts = self.counts[:3] if quick else self.counts
        lines: dict[str, dict[int, float]] = {VERSIONING: {}, LIGHTWEIGHT: {}}
        rows = []
        switches = len(build(PLAN_CHANGE_TOPOLOGY).switches)
        for count, (before, added) in zip(counts, perform(self._added, counts, advance), strict=True):
            for method, extra in added.items():
                lines[method][before] = float(extra)
            rows.append((f"{count:,}", before, *(added[method] for method in lines)))
        light, versions = (list(lines[method].values()) for method in (LIGHTWEIGHT, VERSIONING))
        grown = [extra / before for before, extra in lines[VERSIONING].items()]
        verdicts = [
            Verdict("versioning about doubles the rules (adds two thirds to three halves)", _between(grown, 0.66, 1.5)),
            Verdict("light-weight adds at most one rule a switch, however many there are", max(light) <= switches),
            Verdict("light-weight adds less than versioning, at any size", max(light) < min(versions)),
        ]
        columns = ("subscriptions", "rules before", *(f"added by {method}" for method in lines))
        x = "rules before the change"
        return FigureReport(self.figure, self.title, columns, rows, lines, x, verdicts, "rules added")

    def _added(self, count: int) -> tuple[int, dict[str, int]]:
        workload = generate(replace(self.model, subscriptions=count, events=1))
        topology = build(PLAN_CHANGE_TOPOLOGY)
        homes = np.random.default_rng(count).integers(0, len(topology.hosts), count)
        standing = OneSchemaController(topology, workload.schema, self.bits, self.members)
        standing.subscribe(workload.subscriptions, homes.tolist())
        half = GridIndex.regular(workload.schema, self.bits, workload.schema.names[: len(workload.schema) // 2])
        added = {}
        before = standing.rules.all
        for name, method in ((LIGHTWEIGHT, "lightweight"), (VERSIONING, "versioning")):
            standing.begin(half, method)
            added[name] = standing.rules.all - before
            standing.advance("swap")
            standing.advance("clear")
            if name is LIGHTWEIGHT:  # back to where it was
                standing.change(GridIndex.regular(workload.schema, self.bits), "lightweight")
        return before, added


def _between(shares: Sequence[float], low: float, high: float) -> bool:
    return all(low <= share <= high for share in shares)


# -- figure 14(c) ----------------------------------------------------------------------------------------------------

SHIFT_AT, CHOICE_AT, CHANGE_SECONDS, END_AT = 95, 350, 6, 450
"""Seconds: when the traffic shifts, when dimensions are chosen anew, how long the change lasts, when all is over."""
SHOWN_SECONDS = (0, 60, 94, 95, 150, 250, 349, 350, 353, 355, 356, 400, 449)


@dataclass(frozen=True, slots=True)
class WasteOverTime:
    """Two groups of subscriptions that care about different dimensions; traffic goes from one to the other.

    Dimensions are selected before the start and again at `CHOICE_AT`, from the seconds before; during the change some
    publishers use the old plan and some the new one.
    """

    figure: str
    title: str
    model: Model
    bits: int
    technique: str
    dimensions: int
    per_second: int
    members: int = 32

    def run(self, quick: bool, advance: Callable[[float], None]) -> FigureReport:
        rate = self.per_second // 8 if quick else self.per_second
        groups = [generate(replace(self.model, seed=seed, events=(END_AT + 60) * rate)) for seed in (1, 2)]
        schema, topology = groups[0].schema, build(PLAN_CHANGE_TOPOLOGY)
        wanted = [each for group in groups for each in group.subscriptions]
        random = np.random.default_rng(0)
        homes = random.integers(0, len(topology.hosts), len(wanted))
        standing = OneSchemaController(topology, schema, self.bits, self.members, prefix_bits=0)
        standing.subscribe(wanted, homes.tolist())
        before, after = groups[0].events, groups[1].events
        seconds = Arrivals(topology, wanted, homes, rate, random)
        advance(0.2)

        old = self._chosen(before[END_AT * rate :], wanted)
        standing.change(old, "lightweight")
        seconds.pass_by(standing.tables, old, before[: SHIFT_AT * rate])
        advance(0.2)
        seconds.pass_by(standing.tables, old, after[SHIFT_AT * rate : CHOICE_AT * rate])
        advance(0.2)
        new = self._chosen(after[SHIFT_AT * rate : CHOICE_AT * rate], wanted)
        standing.begin(new, "lightweight")
        during = after[CHOICE_AT * rate : (CHOICE_AT + CHANGE_SECONDS) * rate]
        seconds.pass_by(standing.tables, old, during[: len(during) // 2])
        standing.advance("swap")
        seconds.pass_by(standing.tables, new, during[len(during) // 2 :])
        standing.advance("clear")
        advance(0.2)
        seconds.pass_by(standing.tables, new, after[(CHOICE_AT + CHANGE_SECONDS) * rate : END_AT * rate])
        advance(0.2)
        return self._report(seconds.waste, seconds.lost)

    def _chosen(self, events: EventBatch, wanted: Sequence[Filter]) -> Index:
        seen = Sample.of(events, wanted)
        split = SPLITS["regular"](seen, self.bits)
        return split.index(select(self.technique, Evidence(TrafficStatistics.of(seen), split, 0), self.dimensions))

    def _report(self, waste: Floats, lost: Floats) -> FigureReport:
        calm, shifted = waste[:SHIFT_AT].mean(), waste[SHIFT_AT:CHOICE_AT].mean()
        peak, later = waste[CHOICE_AT : CHOICE_AT + CHANGE_SECONDS].mean(), waste[CHOICE_AT + CHANGE_SECONDS :].mean()
        verdicts = [
            Verdict("when the traffic shifts, waste rises clearly", bool(shifted > calm + 0.05)),
            Verdict("while the plan changes there is a peak", bool(peak > max(calm, shifted, later) + 0.05)),
            Verdict("afterwards there is clearly less again", bool(later < shifted - 0.05)),
            Verdict("no event is lost at any time", not lost.any()),
        ]
        lines = {"waste": dict(enumerate(waste.tolist())), "lost": dict(enumerate(lost.tolist()))}
        rows = [
            ("waste", *(f"{waste[second]:.1%}" for second in SHOWN_SECONDS)),
            ("lost", *(f"{lost[second]:.1%}" for second in SHOWN_SECONDS)),
        ]
        columns = ("share", *(f"{second} s" for second in SHOWN_SECONDS))
        return FigureReport(self.figure, self.title, columns, rows, lines, "seconds", verdicts, "share of events")


class Arrivals:
    """Sends so many events a second, and judges what arrives, second by second."""

    def __init__(
        self,
        topology: Topology,
        wanted: Sequence[Filter],
        homes: Ints,
        rate: int,
        random: np.random.Generator,
    ) -> None:
        self._topology = topology
        self._rate = rate
        self._random = random
        self._wishes: list[list[Filter]] = [[] for _ in topology.hosts]
        for home, each in zip(homes.tolist(), wanted, strict=True):
            self._wishes[home].append(each)
        self.waste: Floats = np.zeros(0)
        self.lost: Floats = np.zeros(0)

    def pass_by(
        self, tables: Mapping[SwitchId, FlowTable], index: Index, events: EventBatch, prefix: Dz = ROOT
    ) -> None:
        hosts = len(self._topology.hosts)
        origin = self._random.integers(0, hosts, len(events))
        codes = _under(prefix, index.encode(events.points()))
        forwarding = forward(self._topology, tables, codes, codes.of_event(origin))
        wishes = wanted_by(self._wishes, events)
        second = np.arange(len(events)) // self._rate
        count = len(events) // self._rate
        received, served, wished = (np.zeros(count) for _ in range(3))
        for host, rows in enumerate(forwarding.delivered):
            wish = wishes[host] & (origin != host)
            arrived = rows if codes.events is None else np.unique(codes.events[rows])
            received += np.bincount(second[arrived], minlength=count)
            served += np.bincount(second[arrived[wish[arrived]]], minlength=count)
            wished += np.bincount(second[wish], minlength=count)
        self.waste = np.append(self.waste, 1 - served / np.maximum(received, 1))
        self.lost = np.append(self.lost, (wished - served) / np.maximum(wished, 1))


def _under(prefix: Dz, codes: Codes) -> Codes:
    """The same behind a prefix; both fit into one word."""
    length = prefix.length
    if not length:
        return codes
    head = np.uint64((prefix ^ 1 << length) << WORD_BITS - length)
    return Codes(codes.words >> np.uint64(length) | head, codes.bits + length, codes.events)

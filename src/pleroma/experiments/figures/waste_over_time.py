"""Waste while traffic shifts and the plan changes after it (Bhowmik et al. 2018, VI and figure 14(c))."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.evaluation.sample import Sample
from pleroma.experiments.figures.additional_rules import PLAN_CHANGE_TOPOLOGY
from pleroma.experiments.figures.one_schema_controller import OneSchemaController
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.index import ROOT, Dz, Index
from pleroma.index.codes import WORD_BITS, Codes
from pleroma.matching import wanted_by
from pleroma.routing import FlowTable, SwitchId, Topology, build
from pleroma.selection.dimension_selection import select
from pleroma.selection.evidence import Evidence
from pleroma.selection.splits import SPLITS
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.switches import forward
from pleroma.workloads import Model, generate

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
    """Sends events at a rate, and judges second by second what arrives at the hosts."""

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
    """Codes with a prefix before them; both fit into one word."""
    length = prefix.length
    if not length:
        return codes
    head = np.uint64((prefix ^ 1 << length) << WORD_BITS - length)
    return Codes(codes.words >> np.uint64(length) | head, codes.bits + length, codes.events)

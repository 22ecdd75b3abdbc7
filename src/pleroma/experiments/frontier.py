"""Waste against rules: how little each technique wastes when a switch has room for so many rules, and no more.

For every budget, a technique gets the number of bits, the dimensions and the limit on dz per subscription that serve it
best there, by events set aside; so does the learned tree, and where a technique of the papers does better on those, it
is taken instead. What is reported comes from events that none of this has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.experiments.report import Report, Verdict
from pleroma.experiments.source import Source, generated
from pleroma.index import GridIndex, Index, Waste
from pleroma.index.kernels import Ints
from pleroma.routing import Router, Topology, build
from pleroma.tuning import SPLITS, Evidence, Sample, Statistics, select
from pleroma.tuning.advice import CUTS, LEARNED, SELECTIONS, halves
from pleroma.tuning.network_outcome import Spread, judge_on
from pleroma.tuning.outcome import Outcome, judge
from pleroma.tuning.selection import EVALUATING
from pleroma.tuning.tree_learner import Budget, learn
from pleroma.workloads import EXPRESSIVE, StockModel, Workload

LENGTHS = (4, 6, 8, 10, 12, 14, 16, 20, 23, 32, 64, 112)
MEMBERS = (1, 4, 16, 64, None)
EXHAUSTIVE = 14
"""Up to so many bits, covers without any limit on their members are tried as well."""
SETS = 2
"""Of the dimensions that a selection proposes, so many sets are tried in full at each length."""
SET_ASIDE = 4_000
DRIFTED = 10

_MODEL = replace(EXPRESSIVE, events=24_000, width=0.2, placement="inside")
_ZIPFIAN = replace(_MODEL, distribution="zipfian")
WORKLOADS: Mapping[str, Source] = {
    "uniform": _MODEL,
    "zipfian": _ZIPFIAN,
    "correlated": replace(_ZIPFIAN, correlation="positive", pairs=3),
    "stock": StockModel(),
}
LEAST_RATIO = {"uniform": 5.0, "zipfian": 3.0, "stock": 3.0}
"""What the learned index is meant to reach at 4,000 rules."""


class Scenario(NamedTuple):
    workload: str
    subscriptions: int
    network: str
    """A topology, or `star`: every subscription on a port of its own."""
    bits: int

    def __str__(self) -> str:
        return f"{self.workload}, {self.subscriptions:,}, {self.network}, {self.bits} bits"


class Point(NamedTuple):
    """At one budget: the best technique of the papers and the learned index, on events that neither has seen."""

    scenario: Scenario
    rules: int
    technique: str
    paper: Outcome
    learned: Outcome
    tree: bool
    """Whether the events set aside spoke for the tree; otherwise the learned index is the technique."""
    drift: tuple[Waste, Waste]
    """Of both, when only what a few of the subscriptions want is still published."""

    @property
    def ratio(self) -> float:
        return _ratio(self.paper.waste, self.learned.waste)

    def figures(self) -> dict[str, Any]:
        return self.scenario._asdict() | {
            "rules": self.rules,
            "technique": self.technique,
            "technique_rules": self.paper.rules,
            "technique_waste": self.paper.waste.rate,
            "learned_rules": self.learned.rules,
            "learned_waste": self.learned.waste.rate,
            "tree": self.tree,
            "ratio": self.ratio,
            "drift_ratio": _ratio(*self.drift),
            "learned_waste_after_drift": self.drift[1].rate,
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    technique: str
    index: Index
    members: int | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Frontier:
    figure: str = "frontier"
    title: str = "waste against rules per switch, every technique and the learned index"
    workloads: Mapping[str, Source] = field(default_factory=lambda: WORKLOADS)
    subscriptions: tuple[int, ...] = (400, 1_000, 10_000)
    networks: tuple[str, ...] = ("star", "fat-tree:4")
    bits: tuple[int, ...] = (23, 112)
    budgets: tuple[int, ...] = (1_000, 4_000, 16_000, 64_000)
    selections: tuple[str, ...] = SELECTIONS
    splits: tuple[str, ...] = CUTS
    lengths: tuple[int, ...] = LENGTHS
    events: int | None = None

    def smaller(self) -> Frontier:
        """For a run of seconds."""
        return replace(
            self,
            subscriptions=(150,),
            networks=("star",),
            bits=(23,),
            budgets=(150, 600),
            selections=("ges",),
            lengths=(8, 11),
            events=1_600,
        )

    def run(self, quick: bool, advance: Callable[[float], None]) -> Report:
        return (self.smaller() if quick else self).run_all(advance)

    def run_all(self, advance: Callable[[float], None]) -> Report:
        scenarios = [
            Scenario(name, count, network, bits)
            for name in self.workloads
            for count in self.subscriptions
            for network in self.networks
            for bits in self.bits
        ]
        points: list[Point] = []
        lines: dict[str, dict[int, float]] = {}
        for scenario in scenarios:
            found, curves = self.measured(scenario)
            points += found
            lines |= {f"{label}, {scenario}": curve for label, curve in curves.items()}
            advance(1 / len(scenarios))
        return Report(
            self.figure,
            self.title,
            ("scenario", "rules", "best technique", "its waste", "learned", "wasted deliveries, ratio", "after drift"),
            [_row(point) for point in points],
            lines,
            "rules per switch",
            _verdicts(points),
            figures=_figures(points, scenarios),
        )

    def measured(self, scenario: Scenario) -> tuple[list[Point], dict[str, dict[int, float]]]:
        """The points of one scenario, and by technique the waste at each budget."""
        stage = _Stage.of(self, scenario)
        candidates = list(self._candidates(stage))
        points = []
        curves: dict[str, dict[int, float]] = {}
        for rules in self.budgets:
            fitting = [each for each in candidates if each.outcome.rules <= rules]
            best = {}
            for each in sorted(fitting, key=lambda each: -each.outcome.waste.deliveries):
                best[each.technique] = each
            for technique, each in best.items():
                judged = stage.judge(each.index, each.members, stage.unseen)
                curves.setdefault(technique, {})[rules] = judged.waste.rate
            top = min(best.values(), key=lambda each: each.outcome.waste.deliveries)
            tree = stage.learn(scenario.bits, rules)
            chosen = min((top, tree), key=lambda each: each.outcome.waste.deliveries)
            paper, learned = (stage.judge(each.index, each.members, stage.unseen) for each in (top, chosen))
            before, after = (stage.judge(each.index, each.members, stage.drifted).waste for each in (top, chosen))
            curves.setdefault(LEARNED, {})[rules] = learned.waste.rate
            points.append(Point(scenario, rules, top.technique, paper, learned, chosen is tree, (before, after)))
        return points, curves

    def _candidates(self, stage: _Stage) -> Iterator[_Candidate]:
        """Every technique with every length, its best dimensions and every limit on members, judged by set-asides."""
        bare = GridIndex(stage.workload.schema, ())  # one rule, whatever the budget
        yield _Candidate("no bits", bare, None, stage.judge(bare, None, stage.aside))
        statistics = Statistics.of(stage.sample)
        counts = range(1, len(stage.workload.schema) + 1)
        for name in self.splits:
            for bits in [n for n in self.lengths if n <= stage.bits]:
                split = SPLITS[name](stage.sample, bits)
                regular = SPLITS["regular"](stage.sample, bits)
                known: dict[tuple[tuple[int, ...], int | None], tuple[Index, Outcome]] = {}
                for selection in self.selections:
                    evidence = Evidence(statistics, split if selection in EVALUATING else regular, 0)
                    sets = {select(selection, evidence, n) for n in counts}
                    for dims in sorted(sets, key=lambda dims: split.waste(dims).deliveries)[:SETS]:
                        for members in MEMBERS:
                            if members is None and bits > EXHAUSTIVE:
                                continue
                            if (dims, members) not in known:
                                index = split.index(dims)
                                known[dims, members] = index, stage.judge(index, members, stage.aside)
                            index, outcome = known[dims, members]
                            yield _Candidate(f"{selection} + {name}", index, members, outcome)
                            if outcome.rules > max(self.budgets):  # and more members take more rules
                                break


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """A workload, its events parted by what they are for, and the network that it is on."""

    workload: Workload
    bits: int
    sample: Sample
    aside: EventBatch
    unseen: EventBatch
    drifted: EventBatch
    homes: Ints | None
    spread: Spread

    @classmethod
    def of(cls, frontier: Frontier, scenario: Scenario) -> _Stage:
        source = replace(frontier.workloads[scenario.workload], subscriptions=scenario.subscriptions)
        if frontier.events is not None and not isinstance(source, StockModel):
            source = replace(source, events=frontier.events)
        workload = generated(source)
        events = workload.events
        if frontier.events is not None and len(events) > frontier.events:
            events = events[np.sort(np.random.default_rng(2).permutation(len(events))[: frontier.events])]
        seen, unseen = halves(events, source.seed)
        order = np.random.default_rng(source.seed).permutation(len(seen))
        aside = min(len(seen) // 4, SET_ASIDE)
        homes: Ints | None = None
        spread: Spread = ()
        if scenario.network != "star":
            network = build(scenario.network)
            homes = np.random.default_rng(source.seed).integers(0, len(network.hosts), scenario.subscriptions)
            spread = spread_of(network)
        few = workload.subscriptions[:: len(workload.subscriptions) // DRIFTED or 1]
        still = np.any([unseen.matches(each) for each in few], axis=0)
        return cls(
            workload,
            scenario.bits,
            Sample.of(seen[np.sort(order[aside:])], workload.subscriptions),
            seen[np.sort(order[:aside])],
            unseen,
            unseen[still] if still.any() else unseen,
            homes,
            spread,
        )

    def judge(self, index: Index, members: int | None, events: EventBatch) -> Outcome:
        if self.homes is None:
            return judge(index, self.workload.subscriptions, events, members)
        return judge_on(index, self.workload.subscriptions, self.homes, self.spread, events, members)

    def learn(self, bits: int, rules: int) -> _Candidate:
        sample = self.sample if self.homes is None else self.sample.grouped(self.homes)
        index = learn(sample, bits, Budget(rules=rules), spread=self.spread).index
        return _Candidate(LEARNED, index, None, self.judge(index, None, self.aside))


def spread_of(network: Topology) -> Spread:
    """For each switch on the way of events, the port towards each host."""
    tree = Router(network).families[0].tree
    ports = []
    for switch in network.switches:
        toward = [tree.toward[host.name].get(switch) for host in network.hosts]
        if None not in toward:
            ports.append(np.array(toward, np.int64))
    return ports


def _ratio(paper: Waste, learned: Waste) -> float:
    """Wasted deliveries of the one over those of the other, none counting as one."""
    return max(paper.wasted, 1) / max(learned.wasted, 1)


def _row(point: Point) -> tuple[Any, ...]:
    return (
        str(point.scenario),
        f"{point.rules:,}",
        point.technique,
        f"{point.paper.waste.rate:.1%}",
        f"{point.learned.waste.rate:.1%}" + ("" if point.tree else " (that technique)"),
        f"{point.ratio:.1f}",
        f"{_ratio(*point.drift):.1f}",
    )


def _figures(points: list[Point], scenarios: list[Scenario]) -> dict[str, Any]:
    """The ratios of the first scenario of each workload, by rules, and all points."""
    first = {scenario.workload: scenario for scenario in reversed(scenarios)}
    ratios: dict[str, dict[str, float]] = {}
    for point in points:
        if point.scenario == first[point.scenario.workload]:
            ratios.setdefault(point.scenario.workload, {})[str(point.rules)] = round(point.ratio, 2)
    return {"waste_ratio": ratios, "points": [point.figures() for point in points]}


def _verdicts(points: list[Point]) -> list[Verdict]:
    """The promises; one about a budget that was not measured is left out."""
    found = [
        Verdict(
            "the learned index never wastes more than the best technique of the papers",
            all(point.learned.waste.deliveries <= point.paper.waste.deliveries for point in points),
        )
    ]
    for workload, least in LEAST_RATIO.items():
        at = [point.ratio for point in points if point.scenario.workload == workload and point.rules == 4_000]
        if at:
            claim = f"at 4,000 rules it wastes {least:.0f} times fewer deliveries on {workload} data"
            found.append(Verdict(claim, min(at) >= least))
    return found

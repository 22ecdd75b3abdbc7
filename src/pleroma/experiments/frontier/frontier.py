"""Waste against rules: how little each technique wastes when a switch has room for so many rules, and no more.

For every budget, a technique gets the number of bits, the dimensions and the limit on dz per subscription that serve it
best there, by events set aside; so does the learned tree, and where a technique of the papers does better on those, it
is taken instead. What is reported comes from events that none of this has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pleroma.evaluation.judge import Outcome
from pleroma.experiments.frontier.search import (
    NO_BITS,
    TRIED_LENGTHS,
    BudgetSetting,
    FrontierSearch,
    JudgedIndex,
    judged,
)
from pleroma.experiments.frontier.trials import STAR, trials_of
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.experiments.workload_source import Source
from pleroma.index import Waste
from pleroma.selection.advice import LEARNED
from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS
from pleroma.workloads import EXPRESSIVE, StockModel

_UNIFORM_MODEL = replace(EXPRESSIVE, events=24_000, width=0.2, placement="inside")
_ON_HOTSPOTS = replace(_UNIFORM_MODEL, distribution="zipfian")
WORKLOADS: Mapping[str, Source] = {
    "uniform": _UNIFORM_MODEL,
    "zipfian": _ON_HOTSPOTS,
    "correlated": replace(_ON_HOTSPOTS, correlation="positive", pairs=3),
    "stock": StockModel(),
}
BEST_TECHNIQUE = "best technique of the papers"
LEAST_RATIO = {"uniform": 5.0, "zipfian": 3.0, "stock": 3.0}
"""By workload: how many times fewer deliveries the learned index is meant to waste at 4,000 rules."""


class FrontierScenario(NamedTuple):
    """A workload on a network, and the bits of its indexes. Each has a frontier of waste against rules."""

    workload: str
    subscriptions: int
    network: str
    """A topology, or `star`: every subscription on a port of its own."""
    bits: int

    def __str__(self) -> str:
        return f"{self.workload}, {self.subscriptions:,}, {self.network}, {self.bits} bits"


class FrontierPoint(NamedTuple):
    """At one budget: the best technique of the papers and the learned index, on events that neither has seen."""

    scenario: FrontierScenario
    rules: int
    technique: str
    paper: Outcome
    learned: Outcome
    tree: bool
    """Whether the events set aside spoke for the tree; otherwise the learned index is the technique."""
    drift: tuple[Waste, Waste]
    """The waste of both, when only events that a few of the subscriptions want are still published."""

    @property
    def ratio(self) -> float:
        return _ratio(self.paper.waste, self.learned.waste)

    @property
    def worse(self) -> bool:
        """Whether the events set aside were wrong: the technique would have been better."""
        return self.learned.waste.deliveries > self.paper.waste.deliveries

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


Curves = dict[str, dict[int, float]]
"""By technique and number of rules: the share of deliveries that is wasted."""


class FrontierTask(NamedTuple):
    """A part of the frontier that can be found by itself: what one split reaches, or the learned tree."""

    workload: str
    subscriptions: int
    split: str
    """Or `LEARNED`."""
    network: str = ""
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Frontier:
    figure: str = "frontier"
    title: str = "waste against rules per switch: the learned index and the best technique of the papers"
    workloads: Mapping[str, Source] = field(default_factory=lambda: WORKLOADS)
    subscriptions: tuple[int, ...] = (400, 1_000, 10_000)
    networks: tuple[str, ...] = ("star", "fat-tree:4")
    bits: tuple[int, ...] = (23, 112)
    budgets: tuple[int, ...] = (1_000, 4_000, 16_000, 64_000)
    selections: tuple[str, ...] = DEFAULT_SELECTIONS
    splits: tuple[str, ...] = DEFAULT_SPLITS
    lengths: tuple[int, ...] = TRIED_LENGTHS
    events: int | None = None

    def smaller(self) -> Frontier:
        """The same experiment with few and small scenarios, for a run of seconds."""
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

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        return (self.smaller() if quick else self).run_all(advance, perform)

    def run_all(self, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        settings = [(name, count) for count in self.subscriptions for name in self.workloads]
        # the largest first, so that nobody is left with one of them at the end
        tasks = [t for s in sorted(settings, key=lambda each: -each[1]) for t in self.tasks(*s)]
        found = dict(zip(tasks, perform(self.found, tasks, advance), strict=True))
        return self.report([each for s in settings for each in self.measured(*s, found)])

    def tasks(self, workload: str, subscriptions: int) -> list[FrontierTask]:
        each = (workload, subscriptions)
        trees = [FrontierTask(*each, LEARNED, network, bits) for network in self.networks for bits in self.bits]
        return trees + [FrontierTask(*each, name) for name in self.splits]

    def report(self, measured: list[tuple[FrontierScenario, list[FrontierPoint], Curves]]) -> FigureReport:
        points = [point for _, found, _ in measured for point in found]
        lines = {f"{label}, {scenario}": curve for scenario, _, curves in measured for label, curve in curves.items()}
        return FigureReport(
            self.figure,
            self.title,
            ("scenario", "rules", "best technique", "its waste", "learned", "wasted deliveries, ratio", "after drift"),
            [_row(point) for point in points],
            lines,
            "rules per switch",
            _verdicts(points),
            "waste (star: at subscriptions, networks: at hosts)",
            figures=_figures(points),
            panels={str(scenario): _envelope(points, curves) for scenario, points, curves in measured},
        )

    def found(self, task: FrontierTask) -> Mapping[BudgetSetting, Mapping[str, JudgedIndex]]:
        """By setting and technique: what the best index of the technique does."""
        trials = trials_of(self.workloads[task.workload], task.subscriptions, self.networks, self.events)
        if task.split != LEARNED:
            search = FrontierSearch(trials, self.networks, self.bits, self.budgets, self.selections, self.lengths)
            return search.found(task.split)
        settings = [BudgetSetting(task.network, task.bits, rules) for rules in self.budgets]
        trees = {setting: trials.learn(*setting) for setting in settings}
        return {setting: {LEARNED: judged(trials, setting.network, tree, None)} for setting, tree in trees.items()}

    def measured(
        self, workload: str, count: int, found: Mapping[FrontierTask, Mapping[BudgetSetting, Mapping[str, JudgedIndex]]]
    ) -> list[tuple[FrontierScenario, list[FrontierPoint], Curves]]:
        """The points of every network and number of bits, and the curves."""
        measured = []
        for network in self.networks:
            for bits in self.bits:
                scenario = FrontierScenario(workload, count, network, bits)
                points: list[FrontierPoint] = []
                curves: Curves = {}
                for rules in self.budgets:
                    setting = BudgetSetting(network, bits, rules)
                    techniques = {
                        name: each
                        for split in self.splits
                        for name, each in found[FrontierTask(workload, count, split)][setting].items()
                    }
                    tree = found[FrontierTask(workload, count, LEARNED, network, bits)][setting][LEARNED]
                    point = _point(scenario, rules, techniques, tree)
                    for name, each in techniques.items():
                        curves.setdefault(name, {})[rules] = each.unseen.waste.rate
                    points.append(point)
                curves[LEARNED] = {point.rules: point.learned.waste.rate for point in points}
                measured.append((scenario, points, curves))
        return measured


def _envelope(points: Sequence[FrontierPoint], curves: Curves) -> Curves:
    """What a reader compares: no index at all, the best technique at each budget, and the learned index."""
    nothing = {NO_BITS: curves[NO_BITS]} if NO_BITS in curves else {}
    best = {BEST_TECHNIQUE: {point.rules: point.paper.waste.rate for point in points}}
    return nothing | best | {LEARNED: curves[LEARNED]}


def _point(
    scenario: FrontierScenario, rules: int, techniques: Mapping[str, JudgedIndex], tree: JudgedIndex
) -> FrontierPoint:
    name = min(techniques, key=lambda each: techniques[each].aside)
    top = techniques[name]
    chosen = min((top, tree), key=lambda each: each.aside)
    return FrontierPoint(
        scenario, rules, name, top.unseen, chosen.unseen, chosen is tree, (top.drifted, chosen.drifted)
    )


def _ratio(paper: Waste, learned: Waste) -> float:
    """Wasted deliveries of the one over those of the other, none counting as one."""
    return max(paper.wasted, 1) / max(learned.wasted, 1)


def _row(point: FrontierPoint) -> tuple[Any, ...]:
    return (
        str(point.scenario),
        f"{point.rules:,}",
        point.technique,
        f"{point.paper.waste.rate:.1%}",
        f"{point.learned.waste.rate:.1%}" + ("" if point.tree else " (that technique)"),
        f"{point.ratio:.1f}",
        f"{_ratio(*point.drift):.1f}",
    )


def _figures(points: list[FrontierPoint]) -> dict[str, Any]:
    """The ratios of the first scenario of each workload, by rules, and all points."""
    first = {point.scenario.workload: point.scenario for point in reversed(points)}
    ratios: dict[str, dict[str, float]] = {}
    for point in points:
        if point.scenario == first[point.scenario.workload]:
            ratios.setdefault(point.scenario.workload, {})[str(point.rules)] = round(point.ratio, 2)
    worse = [f"{point.scenario}, {point.rules:,} rules" for point in points if point.worse]
    return {"waste_ratio": ratios, "worse": worse, "points": [point.figures() for point in points]}


def _verdicts(points: list[FrontierPoint]) -> list[Verdict]:
    """The promises; one about a budget that was not measured is left out."""
    found = [
        Verdict(
            "the learned index never wastes more than the best technique of the papers",
            not any(point.worse for point in points),
        )
    ]
    for workload, least in LEAST_RATIO.items():
        at = [point.ratio for point in points if point.scenario.workload == workload and point.rules == 4_000]
        if at:
            claim = f"at 4,000 rules it wastes {least:.0f} times fewer deliveries on {workload} data"
            found.append(Verdict(claim, min(at) >= least))
    return found


FRONTIER_BY_WIDTH = Frontier(
    figure="frontier-widths",
    title="waste against rules per switch, by the share of a dimension that subscriptions ask for",
    workloads={
        f"{name} {width}": replace(WORKLOADS[name], width=width)
        for name in ("uniform", "zipfian")
        for width in (0.1, 0.2, 0.3, 0.4)
    },
    subscriptions=(400,),
    networks=(STAR,),
    bits=(23,),
    budgets=(1_000, 4_000, 16_000),
)
"""How much there is to save depends on how much subscriptions overlap more than on anything else."""

"""Waste against rules: how little each technique wastes when a switch has room for so many rules, and no more.

For every budget, a technique gets the number of bits, the dimensions and the limit on dz per subscription that serve it
best there, by events set aside; so does the learned tree, and where a technique of the papers does better on those, it
is taken instead. What is reported comes from events that none of this has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pleroma.experiments.frontier_stage import Stage
from pleroma.experiments.report import Report, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.experiments.source import Source
from pleroma.index import GridIndex, Index, Waste
from pleroma.tuning import SPLITS, Evidence, Statistics, select
from pleroma.tuning.advice import CUTS, LEARNED, SELECTIONS
from pleroma.tuning.outcome import Outcome
from pleroma.tuning.selection import EVALUATING
from pleroma.workloads import EXPRESSIVE, StockModel

LENGTHS = (4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 23, 32, 64, 112)
MEMBERS = (None, 256, 64, 16, 4, 1)
EXHAUSTIVE = 16
"""Up to so many bits, covers without any limit on their members are tried as well."""
SETS = 2
"""Of the dimensions that a selection proposes, so many sets are tried in full at each length."""

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
"""By technique and rules, what is wasted."""


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    technique: str
    index: Index
    members: int | None
    outcomes: Mapping[str, Outcome]
    """By network, on the events set aside."""


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

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> Report:
        return (self.smaller() if quick else self).run_all(advance, perform)

    def run_all(self, advance: Callable[[float], None], perform: Performer = one_by_one) -> Report:
        settings = [(name, count) for count in self.subscriptions for name in self.workloads]
        measured = perform(self.measured, settings, advance)
        return self.report([each for found in measured for each in found])

    def report(self, measured: list[tuple[Scenario, list[Point], Curves]]) -> Report:
        points = [point for _, found, _ in measured for point in found]
        lines = {f"{label}, {scenario}": curve for scenario, _, curves in measured for label, curve in curves.items()}
        return Report(
            self.figure,
            self.title,
            ("scenario", "rules", "best technique", "its waste", "learned", "wasted deliveries, ratio", "after drift"),
            [_row(point) for point in points],
            lines,
            "rules per switch",
            _verdicts(points),
            figures=_figures(points),
            panels={str(scenario): curves for scenario, _, curves in measured},
        )

    def measured(self, setting: tuple[str, int]) -> list[tuple[Scenario, list[Point], Curves]]:
        """A workload with so many subscriptions: the points of every network and number of bits, and its curves."""
        workload, count = setting
        stage = Stage.of(self.workloads[workload], count, self.networks, self.events)
        candidates = list(self._candidates(stage))
        judged: dict[_Candidate, Mapping[str, Outcome]] = {}

        def unseen(each: _Candidate) -> Mapping[str, Outcome]:
            if each not in judged:
                judged[each] = stage.outcomes(each.index, each.members, stage.unseen)
            return judged[each]

        found = []
        for network in self.networks:
            for bits in self.bits:
                scenario = Scenario(workload, count, network, bits)
                points: list[Point] = []
                curves: Curves = {}
                for rules in self.budgets:
                    best = _best(candidates, network, bits, rules)
                    for technique, each in best.items():
                        curves.setdefault(technique, {})[rules] = unseen(each)[network].waste.rate
                    point = _point(scenario, stage, rules, list(best.values()), unseen)
                    curves.setdefault(LEARNED, {})[rules] = point.learned.waste.rate
                    points.append(point)
                found.append((scenario, points, curves))
        return found

    def _candidates(self, stage: Stage) -> Iterator[_Candidate]:
        """Every technique with every length, its best dimensions and every limit on members, judged by set-asides."""
        bare = GridIndex(stage.workload.schema, ())  # one rule, whatever the budget
        yield _Candidate("no bits", bare, None, stage.outcomes(bare, None, stage.aside))
        statistics = Statistics.of(stage.sample)
        counts = range(1, len(stage.workload.schema) + 1)
        for name in self.splits:
            for bits in [n for n in self.lengths if n <= max(self.bits)]:
                split = SPLITS[name](stage.sample, bits)
                regular = SPLITS["regular"](stage.sample, bits)
                known: dict[tuple[int, ...], list[tuple[Index, int | None, dict[str, Outcome]]]] = {}
                for selection in self.selections:
                    evidence = Evidence(statistics, split if selection in EVALUATING else regular, 0)
                    sets = {select(selection, evidence, n) for n in counts}
                    for dims in sorted(sets, key=lambda dims: split.waste(dims).deliveries)[:SETS]:
                        if dims not in known:
                            known[dims] = list(self._covered(stage, split.index(dims), bits))
                        for index, members, outcomes in known[dims]:
                            yield _Candidate(f"{selection} + {name}", index, members, outcomes)

    def _covered(self, stage: Stage, index: Index, bits: int) -> Iterator[tuple[Index, int | None, dict[str, Outcome]]]:
        """With ever fewer members, until there are fewer rules than anybody asks for: fewer only waste more."""
        for members in MEMBERS:
            if members is not None or bits <= EXHAUSTIVE:
                outcomes = stage.outcomes(index, members, stage.aside)
                yield index, members, outcomes
                if max(each.rules for each in outcomes.values()) <= min(self.budgets):
                    return


def _best(candidates: list[_Candidate], network: str, bits: int, rules: int) -> dict[str, _Candidate]:
    """By technique, what delivers least of the events set aside with at most so many bits and rules."""
    fitting = [each for each in candidates if each.index.bits <= bits and each.outcomes[network].rules <= rules]
    worst_first = sorted(fitting, key=lambda each: -each.outcomes[network].waste.deliveries)
    return {each.technique: each for each in worst_first}


def _point(
    scenario: Scenario,
    stage: Stage,
    rules: int,
    techniques: list[_Candidate],
    unseen: Callable[[_Candidate], Mapping[str, Outcome]],
) -> Point:
    network = scenario.network
    index = stage.learn(network, scenario.bits, rules)
    tree = _Candidate(LEARNED, index, None, stage.outcomes(index, None, stage.aside))
    top = min(techniques, key=lambda each: each.outcomes[network].waste.deliveries)
    chosen = min((top, tree), key=lambda each: each.outcomes[network].waste.deliveries)
    before, after = (stage.outcomes(each.index, each.members, stage.drifted)[network].waste for each in (top, chosen))
    return Point(
        scenario,
        rules,
        top.technique,
        unseen(top)[network],
        unseen(chosen)[network],
        chosen is tree,
        (before, after),
    )


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


def _figures(points: list[Point]) -> dict[str, Any]:
    """The ratios of the first scenario of each workload, by rules, and all points."""
    first = {point.scenario.workload: point.scenario for point in reversed(points)}
    ratios: dict[str, dict[str, float]] = {}
    for point in points:
        if point.scenario == first[point.scenario.workload]:
            ratios.setdefault(point.scenario.workload, {})[str(point.rules)] = round(point.ratio, 2)
    worse = [f"{point.scenario}, {point.rules:,} rules" for point in points if point.worse]
    return {"waste_ratio": ratios, "worse": worse, "points": [point.figures() for point in points]}


def _verdicts(points: list[Point]) -> list[Verdict]:
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

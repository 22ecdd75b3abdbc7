"""The papers' favourite figure: waste by the number of selected dimensions, a line for each technique.

Most evaluations of Bhowmik et al. 2018 (figures 12 and 14), Grunert 2014 (chapter 5) and Bhowmik et al. 2017 (figure 8)
are this one, under different workloads; so they are a table of scenarios here. Techniques choose from half of the
events and are judged by the other half; lines are means over several seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.experiments.report import FigureReport, PublishedValue, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.experiments.seed_spread import SeededLine
from pleroma.experiments.workload_source import Source, generated, smaller
from pleroma.selection.advice import random_halves
from pleroma.selection.dimension_selection import EVALUATING, select
from pleroma.selection.evidence import Evidence
from pleroma.selection.splits import SPLITS, SplitMethod
from pleroma.selection.traffic_statistics import TrafficStatistics

Lines = Mapping[str, list[float]]
"""By technique: waste with all dimensions, then with one fewer at a time, down to one."""
Claim = Callable[[Lines], bool]
"""Whether a finding of the papers holds for the lines measured here."""

SPLIT_SUFFIXES = {"": "regular", "asi": "adaptive", "si": "repeated", "si1": "selective"}
"""Behind a technique's name and a plus: how the dimensions it selects are cut. `si1` sends an event once."""
PERCENTAGE_POINT = 0.01


@dataclass(frozen=True, slots=True)
class DimensionSweep:
    """A figure of waste by number of dimensions. `claims` are the papers' findings, each with its check.

    Where there is more than one workload, each has a name, and lines are called by technique and workload: `evs, 400`.
    """

    figure: str
    title: str
    workloads: Source | Mapping[str, Source]
    bits: int
    techniques: tuple[str, ...]
    claims: Mapping[str, Claim]
    published: tuple[PublishedValue, ...] = ()

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        named = self.workloads if isinstance(self.workloads, Mapping) else {"": self.workloads}
        seeds = range(2 if quick else 5)
        sized = [smaller(source) if quick else source for source in named.values()]
        scenarios = [replace(source, seed=seed) for source in sized for seed in seeds]
        found = perform(partial(_lines, bits=self.bits, techniques=self.techniques), scenarios, advance)
        seeded: dict[str, SeededLine] = {}
        for at, name in enumerate(named):
            runs = found[at * len(seeds) : (at + 1) * len(seeds)]
            for technique in self.techniques:
                label = f"{technique}, {name}" if name else technique
                seeded[label] = SeededLine.of([run[technique] for run in runs])
        lines = {label: each.mean for label, each in seeded.items()}
        counts = list(range(len(next(iter(lines.values()))), 0, -1))
        return FigureReport(
            self.figure,
            self.title,
            ("technique", *(f"{n}" for n in counts)),
            [(label, *(f"{rate:.1%}" for rate in line)) for label, line in lines.items()],
            {label: dict(zip(counts, line, strict=True)) for label, line in lines.items()},
            "dimensions",
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
            spread={label: each.spread_at(counts) for label, each in seeded.items()},
            published=self.published,
        )


def _lines(source: Source, bits: int, techniques: tuple[str, ...]) -> dict[str, list[float]]:
    workload = generated(source)
    training, unseen = random_halves(workload.events, source.seed)
    seen = Sample.of(training, workload.subscriptions)
    judges = GridEvaluator(Sample.of(unseen, workload.subscriptions), bits)
    statistics = TrafficStatistics.of(seen)
    splits: dict[str, SplitMethod] = {}
    lines: dict[str, list[float]] = {}
    for technique in techniques:
        name, _, suffix = technique.partition("+")
        split = splits.setdefault(suffix, SPLITS[SPLIT_SUFFIXES[suffix]](seen, bits))
        regular = splits.setdefault("", SPLITS["regular"](seen, bits))
        evidence = Evidence(statistics, split if name in EVALUATING else regular, source.seed)
        chosen = [select(name, evidence, count) for count in range(len(workload.schema), 0, -1)]
        lines[technique] = [judges.waste_of(split.index(dims)).rate for dims in chosen]
    return lines


# -- what a claim can say of lines; the ends, where all choose alike or nothing helps, are left out


def middle(line: list[float]) -> float:
    return float(np.mean(line[1:-1]))


def beats(better: str, worse: str, by: float = 0.0) -> Claim:
    return lambda lines: middle(lines[better]) < middle(lines[worse]) - by


def not_worse(one: str, other: str, margin: float = PERCENTAGE_POINT) -> Claim:
    return lambda lines: middle(lines[one]) <= middle(lines[other]) + margin


def alike(one: str, other: str, margin: float = 3 * PERCENTAGE_POINT) -> Claim:
    return lambda lines: abs(middle(lines[one]) - middle(lines[other])) <= margin


def helps(technique: str, by: float = PERCENTAGE_POINT) -> Claim:
    """Fewer dimensions waste less than all of them, at the best number."""
    return lambda lines: min(lines[technique]) < lines[technique][0] - by


def reduces(technique: str, by: float, of: str | None = None) -> Claim:
    """At the best number of dimensions, this share of the waste that `of` has with all dimensions is gone."""
    return lambda lines: min(lines[technique]) <= lines[of or technique][0] * (1 - by)


def every(*claims: Claim) -> Claim:
    return lambda lines: all(claim(lines) for claim in claims)

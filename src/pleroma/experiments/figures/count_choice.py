"""How many dimensions: counts chosen by eigenvalues and by evaluation, beside the waste of every count.

Grunert 2014, 3.5 and figures 5.25 to 5.28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.experiments.seed_spread import SeededLine
from pleroma.experiments.workload_source import Source, generated, smaller
from pleroma.selection.advice import random_halves
from pleroma.selection.dimension_counts import count_by_eigenvalues, count_by_evaluation
from pleroma.selection.dimension_selection import select
from pleroma.selection.evidence import Evidence
from pleroma.selection.traffic_statistics import TrafficStatistics

EIGENVALUE_THRESHOLD = 0.85
"""The thesis's own choice for these figures."""


@dataclass(frozen=True, slots=True)
class Choices:
    """For one seed: waste by count, largest first, and the position of the count that was chosen."""

    by_count: dict[str, list[float]]
    chosen: dict[str, int]

    def off(self, technique: str) -> int:
        """By how many dimensions the choice differs from the best count."""
        line = self.by_count[technique]
        return abs(self.chosen[technique] - int(np.argmin(line)))

    def loss(self, technique: str) -> float:
        """How much more the chosen count wastes than the best."""
        line = self.by_count[technique]
        return line[self.chosen[technique]] - min(line)


@dataclass(frozen=True, slots=True)
class CountChoice:
    figure: str
    title: str
    source: Source
    bits: int
    claims: Mapping[str, Callable[[list[Choices]], bool]]

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        source = smaller(self.source) if quick else self.source
        seeds = range(2 if quick else 5)
        found = perform(partial(_choices, bits=self.bits), [replace(source, seed=seed) for seed in seeds], advance)
        lines: dict[str, list[float]] = {}
        spread: dict[str, dict[int, float]] = {}
        picked: dict[str, str] = {}
        for technique in found[0].by_count:
            seeded = SeededLine.of([each.by_count[technique] for each in found])
            lines[technique] = seeded.mean
            spread[technique] = seeded.spread_at(range(len(seeded.mean), 0, -1))
            chosen = [each.by_count[technique][each.chosen[technique]] for each in found]
            lines[f"{technique}, automatic"] = [float(np.mean(chosen))] * len(lines[technique])
            counts = sorted({len(lines[technique]) - each.chosen[technique] for each in found})
            picked[f"{technique}, automatic"] = "chose " + ", ".join(map(str, counts))
        order = list(range(len(lines["sfs"]), 0, -1))
        return FigureReport(
            self.figure,
            self.title,
            ("technique", *(f"{n}" for n in order), ""),
            [(label, *(f"{r:.1%}" for r in line), picked.get(label, "")) for label, line in lines.items()],
            {label: dict(zip(order, line, strict=True)) for label, line in lines.items()},
            "dimensions",
            [Verdict(claim, holds(found)) for claim, holds in self.claims.items()],
            spread=spread,
        )


def _choices(source: Source, bits: int) -> Choices:
    workload = generated(source)
    training, unseen = random_halves(workload.events, source.seed)
    seen = Sample.of(training, workload.subscriptions)
    evidence = Evidence(TrafficStatistics.of(seen), GridEvaluator(seen, bits), source.seed)
    judges = GridEvaluator(Sample.of(unseen, workload.subscriptions), bits)
    counts = range(len(workload.schema), 0, -1)
    by_count = {t: [judges.waste(select(t, evidence, n)).rate for n in counts] for t in ("sfs", "ges")}
    chosen = {"sfs": count_by_eigenvalues(evidence, EIGENVALUE_THRESHOLD), "ges": count_by_evaluation(evidence)}
    return Choices(by_count, {t: len(counts) - n for t, n in chosen.items()})


def finds_the_best(technique: str, margin: float = 0.01) -> Callable[[list[Choices]], bool]:
    return lambda found: all(each.loss(technique) <= margin for each in found)


def within_one(technique: str) -> Callable[[list[Choices]], bool]:
    return lambda found: all(each.off(technique) <= 1 for each in found)

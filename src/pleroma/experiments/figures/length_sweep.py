"""Waste by the length of a dz, with subscriptions divided among end hosts (Bhowmik et al. 2017, figure 8(d)).

Waste is counted at hosts: an event that no subscription of a host wants, under a dz that some subscription of it has.
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
from pleroma.workloads import Model, generate

Lines = Mapping[str, list[float]]
TESTBED_HOSTS = 8
"""The hosts of the testbed in the paper."""


@dataclass(frozen=True, slots=True)
class LengthSweep:
    figure: str
    title: str
    models: Mapping[str, Model]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    claims: Mapping[str, Callable[[Lines], bool]]

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        seeds = range(1 if quick else 3)
        counts = self.counts[:2] if quick else self.counts
        sizes = [(name, count) for name in self.models for count in counts]
        scenarios = [
            replace(model, subscriptions=count, events=2_000 if quick else model.events, seed=seed)
            for model in self.models.values()
            for count in counts
            for seed in seeds
        ]
        found = np.array(perform(partial(_rates, lengths=self.lengths), scenarios, advance))
        runs = found.reshape(len(sizes), len(seeds), len(self.lengths))
        seeded = {f"{name}, {n:,}": SeededLine.of(each) for (name, n), each in zip(sizes, runs, strict=True)}
        lines = {label: each.mean for label, each in seeded.items()}
        return FigureReport(
            self.figure,
            self.title,
            ("workload, subscriptions", *map(str, self.lengths)),
            [(label, *(f"{rate:.1%}" for rate in line)) for label, line in lines.items()],
            {label: dict(zip(self.lengths, line, strict=True)) for label, line in lines.items()},
            "bits",
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
            spread={label: each.spread_at(self.lengths) for label, each in seeded.items()},
        )


def _rates(model: Model, lengths: tuple[int, ...]) -> list[float]:
    workload = generate(model)
    homes = np.random.default_rng(model.seed).integers(0, TESTBED_HOSTS, len(workload.subscriptions))
    sample = Sample.of(workload.events, workload.subscriptions).grouped(homes)
    return [GridEvaluator(sample, bits).waste(range(model.dimensions)).rate for bits in lengths]


def falls_with_length(lines: Lines) -> bool:
    """Never up, and down on the whole; hosts that want everything have none to lose."""
    never_up = all(np.all(np.diff(line) <= 1e-9) for line in lines.values())
    return never_up and sum(line[-1] for line in lines.values()) < sum(line[0] for line in lines.values())


def falls_with_subscriptions(lines: Lines) -> bool:
    """Of each workload, the line of the most subscriptions lies below that of the fewest."""
    found: dict[str, list[list[float]]] = {}
    for label, line in lines.items():
        found.setdefault(label.split(",")[0], []).append(line)
    return all(float(np.mean(each[-1])) < float(np.mean(each[0])) for each in found.values())

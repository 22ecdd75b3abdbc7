"""The papers' favourite figure: waste by the number of selected dimensions, a line for each technique.

Most evaluations of papers/000... (figure 12) and papers/003... (chapter 5) are this one, under different workloads; so
they are a table of scenarios here. Techniques choose from half of the events and are judged by the other half; lines
are means over several seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pleroma.experiments.report import Report, Verdict
from pleroma.tuning import Evidence, GridEvaluator, Sample, Statistics, adaptive_grid, select
from pleroma.workloads import Model, generate

Lines = Mapping[str, list[float]]
"""By technique: waste with all dimensions, then with one fewer at a time, down to one."""

ADAPTIVE = "+asi"
"""Behind a technique's name: the grid over its dimensions is split at workload medians."""
LEAST_ADAPTIVE = 2
"""One dimension alone would need more boundaries than a plan can list."""
POINT = 0.01


@dataclass(frozen=True, slots=True)
class Sweep:
    """One figure. `claims` are the papers' findings in our words, each with what decides whether it is ours too."""

    figure: str
    title: str
    model: Model
    bits: int
    techniques: tuple[str, ...]
    claims: Mapping[str, Callable[[Lines], bool]]

    def run(self, quick: bool, advance: Callable[[float], None]) -> Report:
        model = replace(self.model, subscriptions=200, events=2_000) if quick else self.model
        seeds = range(2 if quick else 5)
        runs = []
        for seed in seeds:
            runs.append(_lines(replace(model, seed=seed), self.bits, self.techniques))
            advance(1 / len(seeds))
        counts = list(range(model.dimensions, 0, -1))
        lines = {t: np.mean([run[t] for run in runs], axis=0).tolist() for t in self.techniques}
        rows = [(t, *(f"{rate:.1%}" for rate in lines[t])) for t in self.techniques]
        return Report(
            self.figure,
            self.title,
            ("technique", *(f"{n}" for n in counts)),
            rows,
            {t: dict(zip(counts, lines[t], strict=False)) for t in self.techniques},
            "dimensions",
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
        )


def _lines(model: Model, bits: int, techniques: tuple[str, ...]) -> dict[str, list[float]]:
    workload = generate(model)
    half = len(workload.events) // 2
    seen = Sample.of(workload.events[:half], workload.subscriptions)
    judges = GridEvaluator(Sample.of(workload.events[half:], workload.subscriptions), bits)
    evidence = Evidence(Statistics.of(seen), GridEvaluator(seen, bits), model.seed)
    lines: dict[str, list[float]] = {}
    for technique in techniques:
        name = technique.removesuffix(ADAPTIVE)
        rates = []
        for count in range(model.dimensions, 0, -1):
            dims = select(name, evidence, count)
            if technique == name or count < LEAST_ADAPTIVE:
                rates.append(judges.waste(dims).rate)
            else:
                rates.append(judges.waste_of(adaptive_grid(seen, bits, dims)).rate)
        lines[technique] = rates
    return lines


# -- what a claim can say of lines; the ends, where all choose alike or nothing helps, are left out


def middle(line: list[float]) -> float:
    return float(np.mean(line[1:-1]))


def beats(better: str, worse: str, by: float = 0.0) -> Callable[[Lines], bool]:
    return lambda lines: middle(lines[better]) < middle(lines[worse]) - by


def not_worse(one: str, other: str, margin: float = POINT) -> Callable[[Lines], bool]:
    return lambda lines: middle(lines[one]) <= middle(lines[other]) + margin


def alike(one: str, other: str, margin: float = 3 * POINT) -> Callable[[Lines], bool]:
    return lambda lines: abs(middle(lines[one]) - middle(lines[other])) <= margin


def helps(technique: str, by: float = POINT) -> Callable[[Lines], bool]:
    """Fewer dimensions waste less than all of them, at the best number."""
    return lambda lines: min(lines[technique]) < lines[technique][0] - by


def every(*claims: Callable[[Lines], bool]) -> Callable[[Lines], bool]:
    return lambda lines: all(claim(lines) for claim in claims)

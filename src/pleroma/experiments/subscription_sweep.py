"""Waste by the number of subscriptions, a line for each kind of index (papers/000..., figure 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pleroma.experiments.report import Report, Verdict
from pleroma.index import GridIndex
from pleroma.tuning import GridEvaluator, Sample, adaptive_grid
from pleroma.workloads import Model, generate

Lines = Mapping[str, list[float]]
REGULAR, ADAPTIVE = "regular", "adaptive"


@dataclass(frozen=True, slots=True)
class SubscriptionSweep:
    figure: str
    title: str
    model: Model
    bits: int
    counts: tuple[int, ...]
    claims: Mapping[str, Callable[[Lines], bool]]

    def run(self, quick: bool, advance: Callable[[float], None]) -> Report:
        counts = tuple(n for n in self.counts if n <= 1_000) if quick else self.counts
        seeds = range(1 if quick else 3)
        runs: dict[str, list[list[float]]] = {REGULAR: [], ADAPTIVE: []}
        for seed in seeds:
            rates = []
            for count in counts:
                rates.append(_rates(replace(self.model, subscriptions=count, seed=seed), self.bits))
                advance(1 / len(counts) / len(seeds))
            runs[REGULAR].append([regular for regular, _ in rates])
            runs[ADAPTIVE].append([adaptive for _, adaptive in rates])
        lines = {kind: np.mean(found, axis=0).tolist() for kind, found in runs.items()}
        return Report(
            self.figure,
            self.title,
            ("index", *(f"{n:,}" for n in counts)),
            [(kind, *(f"{rate:.1%}" for rate in line)) for kind, line in lines.items()],
            {kind: dict(zip(counts, line, strict=True)) for kind, line in lines.items()},
            "subscriptions",
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
        )


def _rates(model: Model, bits: int) -> tuple[float, float]:
    workload = generate(model)
    half = len(workload.events) // 2
    seen = Sample.of(workload.events[:half], workload.subscriptions)
    judges = GridEvaluator(Sample.of(workload.events[half:], workload.subscriptions), bits)
    regular = judges.waste_of(GridIndex.regular(workload.schema, bits))
    return regular.rate, judges.waste_of(adaptive_grid(seen, bits)).rate


def adaptive_never_wastes_more(lines: Lines) -> bool:
    pairs = zip(lines[ADAPTIVE], lines[REGULAR], strict=True)
    return all(adaptive <= regular + 0.005 for adaptive, regular in pairs)


def adaptive_wastes_less(lines: Lines) -> bool:
    return float(np.mean(lines[ADAPTIVE])) < float(np.mean(lines[REGULAR])) - 0.01

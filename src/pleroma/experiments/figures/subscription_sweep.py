"""Waste by the number of subscriptions, a line for each kind of index (Bhowmik et al. 2018, figure 11)."""

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
from pleroma.selection.advice import random_halves
from pleroma.selection.splits import SPLITS
from pleroma.workloads import Model, generate

Lines = Mapping[str, list[float]]
REGULAR = "regular"


@dataclass(frozen=True, slots=True)
class SubscriptionSweep:
    """Regular indexing, and the `splits` to compare it with."""

    figure: str
    title: str
    model: Model
    bits: int
    splits: tuple[str, ...]
    counts: tuple[int, ...]
    claims: Mapping[str, Callable[[Lines], bool]]

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        counts = tuple(n for n in self.counts if n <= 1_000) if quick else self.counts
        seeds = range(1 if quick else 3)
        kinds = (REGULAR, *self.splits)
        scenarios = [replace(self.model, subscriptions=count, seed=seed) for seed in seeds for count in counts]
        found = perform(partial(_rates, kinds=kinds, bits=self.bits), scenarios, advance)
        rates = np.reshape(found, (len(seeds), len(counts), len(kinds)))
        seeded = {kind: SeededLine.of(rates[:, :, at]) for at, kind in enumerate(kinds)}
        lines = {kind: each.mean for kind, each in seeded.items()}
        return FigureReport(
            self.figure,
            self.title,
            ("index", *(f"{n:,}" for n in counts)),
            [(kind, *(f"{rate:.1%}" for rate in line)) for kind, line in lines.items()],
            {kind: dict(zip(counts, line, strict=True)) for kind, line in lines.items()},
            "subscriptions",
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
            spread={kind: each.spread_at(counts) for kind, each in seeded.items()},
        )


def _rates(model: Model, kinds: tuple[str, ...], bits: int) -> tuple[float, ...]:
    workload = generate(model)
    training, unseen = random_halves(workload.events, model.seed)
    seen = Sample.of(training, workload.subscriptions)
    judges = GridEvaluator(Sample.of(unseen, workload.subscriptions), bits)
    everything = range(len(workload.schema))
    indexes = [SPLITS[split](seen, bits).index(everything) for split in kinds]
    return tuple(judges.waste_of(index).rate for index in indexes)


def never_wastes_more(split: str) -> Callable[[Lines], bool]:
    return lambda lines: all(ours <= other + 0.005 for ours, other in zip(lines[split], lines[REGULAR], strict=True))


def wastes_less(split: str) -> Callable[[Lines], bool]:
    return lambda lines: float(np.mean(lines[split])) < float(np.mean(lines[REGULAR])) - 0.01


def gains_most_with_few(split: str) -> Callable[[Lines], bool]:
    """The gain with the fewest subscriptions exceeds the gain with the most."""
    return lambda lines: lines[REGULAR][0] - lines[split][0] > lines[REGULAR][-1] - lines[split][-1]

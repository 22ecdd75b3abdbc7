"""Every technique on every combination of a workload, a number of subscriptions and a number of bits.

The combinations are independent scenarios, so that any performer (see `scenarios`) finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np

from pleroma.errors import SetupError, UnknownName
from pleroma.experiments.frontier.frontier import WORKLOADS
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.experiments.workload_source import Source, generated
from pleroma.index import MAX_LENGTH
from pleroma.selection.advice import AdviceQuestion, advise
from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS
from pleroma.selection.dimension_selection import TECHNIQUES
from pleroma.selection.splits import SPLITS
from pleroma.workloads import StockModel


class ComparedScenario(NamedTuple):
    workload: str
    subscriptions: int
    bits: int
    seed: int


class TechniqueResult(NamedTuple):
    """Waste on events that the technique has not seen, and the rules it takes; means where there are several seeds."""

    workload: str
    subscriptions: int
    bits: int
    technique: str
    waste: float
    rules: float

    @property
    def scenario(self) -> tuple[str, int, int]:
        return self[:3]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to compare. `events` is the number of events of synthetic workloads; half of them judge."""

    workloads: tuple[str, ...] = ("uniform", "zipfian")
    subscriptions: tuple[int, ...] = (100, 400)
    bits: tuple[int, ...] = (12, 23)
    selections: tuple[str, ...] = DEFAULT_SELECTIONS
    splits: tuple[str, ...] = DEFAULT_SPLITS
    members: int | None = 32
    events: int = 10_000
    seeds: int = 1
    sources: Mapping[str, Source] = field(default_factory=lambda: WORKLOADS)

    def __post_init__(self) -> None:
        known = {"workloads": self.sources, "selections": TECHNIQUES, "splits": SPLITS}
        for name, names in known.items():
            for each in getattr(self, name):
                if each not in names:
                    raise UnknownName(name.removesuffix("s"), each, names)
        for name, most in (("subscriptions", None), ("bits", MAX_LENGTH)):
            for each in getattr(self, name):
                if each < 1 or (most is not None and each > most):
                    limit = "" if most is None else f" and at most {most}"
                    raise SetupError(f"is at least 1{limit}, not {each}", field=name, value=each)
        for name in ("workloads", "subscriptions", "bits", "splits"):
            if not getattr(self, name):
                raise SetupError("takes one at least", field=name)

    @property
    def scenarios(self) -> list[ComparedScenario]:
        return [
            ComparedScenario(*each)
            for each in product(self.workloads, self.subscriptions, self.bits, range(self.seeds))
        ]

    def run(self, advance: Callable[[float], None], perform: Performer = one_by_one) -> list[TechniqueResult]:
        """Scenario by scenario, the least waste first."""
        scenarios = self.scenarios
        found = perform(self.measured, scenarios, advance)
        findings: list[TechniqueResult] = []
        for (workload, subscriptions, bits), group in groupby(
            zip(scenarios, found, strict=True), key=lambda each: each[0][:3]
        ):
            runs = [outcome for _, outcome in group]
            rows = [
                TechniqueResult(
                    workload, subscriptions, bits, technique, *np.mean([run[technique] for run in runs], 0).tolist()
                )
                for technique in runs[0]
            ]
            findings += sorted(rows, key=lambda row: (row.waste, row.rules))
        return findings

    def measured(self, scenario: ComparedScenario) -> dict[str, tuple[float, float]]:
        """By technique: the share of deliveries that is wasted, and the rules."""
        source = self.sources[scenario.workload]
        sized = replace(source, subscriptions=scenario.subscriptions, seed=scenario.seed)
        if not isinstance(sized, StockModel):
            sized = replace(sized, events=self.events)
        workload = generated(sized)
        question = AdviceQuestion(
            workload.subscriptions,
            scenario.bits,
            max_members=self.members,
            compare=True,
            selections=self.selections,
            splits=self.splits,
            seed=scenario.seed,
        )
        advice = advise(workload.events, question)
        return {each.technique: (each.outcome.waste.rate, float(each.outcome.rules)) for each in advice}


def best(findings: Sequence[TechniqueResult], count: int) -> list[TechniqueResult]:
    """The first `count` results of each scenario."""
    return [each for _, group in groupby(findings, key=lambda row: row.scenario) for each in list(group)[:count]]


def figures(findings: Sequence[TechniqueResult]) -> list[dict[str, Any]]:
    names = {"waste": "waste_at_subscriptions"}
    return [{names.get(name, name): value for name, value in each._asdict().items()} for each in findings]

"""Rules that a change of plans adds before any go (Bhowmik et al. 2018, V and figure 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pleroma.experiments.figures.one_schema_controller import OneSchemaController
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.workloads import Model, generate

PLAN_CHANGE_TOPOLOGY = "testbed"
LIGHTWEIGHT, VERSIONING = "light-weight", "versioning"


@dataclass(frozen=True, slots=True)
class AdditionalRules:
    """Rules that a change adds before any go, by the number of rules there are."""

    figure: str
    title: str
    model: Model
    bits: int
    counts: tuple[int, ...]
    members: int = 4

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        counts = self.counts[:3] if quick else self.counts
        lines: dict[str, dict[int, float]] = {VERSIONING: {}, LIGHTWEIGHT: {}}
        rows = []
        switches = len(build(PLAN_CHANGE_TOPOLOGY).switches)
        for count, (before, added) in zip(counts, perform(self._added, counts, advance), strict=True):
            for method, extra in added.items():
                lines[method][before] = float(extra)
            rows.append((f"{count:,}", before, *(added[method] for method in lines)))
        light, versions = (list(lines[method].values()) for method in (LIGHTWEIGHT, VERSIONING))
        grown = [extra / before for before, extra in lines[VERSIONING].items()]
        verdicts = [
            Verdict("versioning about doubles the rules (adds two thirds to three halves)", _between(grown, 0.66, 1.5)),
            Verdict("light-weight adds at most one rule a switch, however many there are", max(light) <= switches),
            Verdict("light-weight adds less than versioning, at any size", max(light) < min(versions)),
        ]
        columns = ("subscriptions", "rules before", *(f"added by {method}" for method in lines))
        x = "rules before the change"
        return FigureReport(self.figure, self.title, columns, rows, lines, x, verdicts, "rules added")

    def _added(self, count: int) -> tuple[int, dict[str, int]]:
        workload = generate(replace(self.model, subscriptions=count, events=1))
        topology = build(PLAN_CHANGE_TOPOLOGY)
        homes = np.random.default_rng(count).integers(0, len(topology.hosts), count)
        standing = OneSchemaController(topology, workload.schema, self.bits, self.members)
        standing.subscribe(workload.subscriptions, homes.tolist())
        half = GridIndex.regular(workload.schema, self.bits, workload.schema.names[: len(workload.schema) // 2])
        added = {}
        before = standing.rules.all
        for name, method in ((LIGHTWEIGHT, "lightweight"), (VERSIONING, "versioning")):
            standing.begin(half, method)
            added[name] = standing.rules.all - before
            standing.advance("swap")
            standing.advance("clear")
            if name is LIGHTWEIGHT:  # back to where it was
                standing.change(GridIndex.regular(workload.schema, self.bits), "lightweight")
        return before, added


def _between(shares: Sequence[float], low: float, high: float) -> bool:
    return all(low <= share <= high for share in shares)

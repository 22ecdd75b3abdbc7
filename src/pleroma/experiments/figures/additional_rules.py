"""Rules that a change of plans adds for a while (Bhowmik et al. 2018, V and figure 10).

Counted is what each switch holds at any moment of the change, as its agent sends the rules, beyond the larger of its
tables before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pleroma.experiments.figures.one_schema_controller import OneSchemaController
from pleroma.experiments.figures.table_peaks import TablePeak, peaks_through
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.workloads import Model, generate

PLAN_CHANGE_TOPOLOGY = "testbed"
LIGHTWEIGHT, VERSIONING = "light-weight", "versioning"


@dataclass(frozen=True, slots=True)
class AdditionalRules:
    """Rules that a change adds for a while, by the number of rules there are."""

    figure: str
    title: str
    model: Model
    bits: int
    counts: tuple[int, ...]
    members: int = 4

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport:
        counts = self.counts[:3] if quick else self.counts
        lines: dict[str, dict[int, float]] = {VERSIONING: {}, LIGHTWEIGHT: {}}
        shares: dict[str, list[float]] = {method: [] for method in lines}
        rows = []
        switches = len(build(PLAN_CHANGE_TOPOLOGY).switches)
        for count, by_method in zip(counts, perform(self._peaks, counts, advance), strict=True):
            before = sum(peak.before for peak in by_method[LIGHTWEIGHT])
            for method, peaks in by_method.items():
                lines[method][before] = float(sum(peak.extra for peak in peaks))
                shares[method].append(max(peak.share for peak in peaks))
            added = (round(lines[method][before]) for method in lines)
            rows.append((f"{count:,}", before, *added, *(f"{shares[method][-1]:.2f}" for method in lines)))
        light, versions = (list(lines[method].values()) for method in (LIGHTWEIGHT, VERSIONING))
        grown = [extra / before for before, extra in lines[VERSIONING].items()]
        verdicts = [
            Verdict("versioning about doubles the rules (adds two thirds to three halves)", _between(grown, 0.66, 1.5)),
            Verdict("light-weight adds at most one rule a switch, however many there are", max(light) <= switches),
            Verdict("light-weight adds less than versioning, at any size", max(light) < min(versions)),
        ]
        columns = (
            "subscriptions",
            "rules before",
            *(f"added by {method}" for method in lines),
            *(f"fullest table, {method}" for method in lines),
        )
        x = "rules before the change"
        figures = {"peak_share": shares}
        return FigureReport(self.figure, self.title, columns, rows, lines, x, verdicts, "rules added", figures=figures)

    def _peaks(self, count: int) -> dict[str, list[TablePeak]]:
        workload = generate(replace(self.model, subscriptions=count, events=1))
        topology = build(PLAN_CHANGE_TOPOLOGY)
        homes = np.random.default_rng(count).integers(0, len(topology.hosts), count)
        standing = OneSchemaController(topology, workload.schema, self.bits, self.members)
        standing.subscribe(workload.subscriptions, homes.tolist())
        half = GridIndex.regular(workload.schema, self.bits, workload.schema.names[: len(workload.schema) // 2])
        found = {}
        for name, method in ((LIGHTWEIGHT, "lightweight"), (VERSIONING, "versioning")):
            before = standing.state.rules.everything()
            found[name] = list(peaks_through(topology, before, standing.change(half, method)).values())
            if name is LIGHTWEIGHT:  # back to where it was
                standing.change(GridIndex.regular(workload.schema, self.bits), "lightweight")
        return found


def _between(shares: Sequence[float], low: float, high: float) -> bool:
    return all(low <= share <= high for share in shares)

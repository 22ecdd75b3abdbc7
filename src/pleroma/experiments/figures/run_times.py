"""How long selections take, by the size of the workload (Bhowmik et al. 2018, figure 13), and at the thesis's size
beside what the thesis reports (Grunert 2014, chapter 5).

Each time is all that a technique needs from the raw workload on: EVS only looks at events, the others make statistics
in one pass, greedy and brute force evaluate on top of that. The least of a few runs counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.experiments.report import FigureReport, Verdict
from pleroma.selection.dimension_selection import select
from pleroma.selection.evidence import Evidence
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.workloads import Model, Workload, generate

Times = Mapping[str, list[float]]
SELECTED_DIMENSIONS = 4
"""How many of the eight dimensions are selected, as in the thesis."""
TIMED_RUNS = 3
THESIS_SECONDS = {
    "evs": 0.01, "sos": 800, "sms": 1.5, "sfs": 2.5, "pcs-cmm": 7.5, "pcs-cfm": 9.5, "ges": 400, "bes": 8 * 3600,
}  # fmt: skip
"""By technique: the seconds that the thesis reports, on a machine of its time."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """`sizes` are (subscriptions, events); `x` says which of the two grows."""

    figure: str
    title: str
    model: Model
    bits: int
    techniques: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    x: str
    claims: Mapping[str, Callable[[Times], bool]]

    def run(self, quick: bool, advance: Callable[[float], None]) -> FigureReport:
        sizes = tuple((s // 10, e // 10) for s, e in self.sizes) if quick else self.sizes
        lines: dict[str, list[float]] = {technique: [] for technique in self.techniques}
        for subscriptions, events in sizes:
            workload = generate(replace(self.model, subscriptions=subscriptions, events=events))
            for technique in self.techniques:
                lines[technique].append(seconds(technique, workload, self.bits))
            advance(1 / len(sizes))
        at = [events if self.x == "events" else subscriptions for subscriptions, events in sizes]
        return FigureReport(
            self.figure,
            self.title,
            ("technique", *(f"{n:,}" for n in at)),
            [(technique, *(f"{each:.3f}" for each in line)) for technique, line in lines.items()],
            {technique: dict(zip(at, line, strict=True)) for technique, line in lines.items()},
            self.x,
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
            y="seconds",
        )


@dataclass(frozen=True, slots=True)
class ThesisRunTimes:
    figure: str
    title: str
    model: Model
    bits: int
    claims: Mapping[str, Callable[[Times], bool]]

    def run(self, quick: bool, advance: Callable[[float], None]) -> FigureReport:
        workload = generate(replace(self.model, subscriptions=200, events=2_000) if quick else self.model)
        here = []
        for technique in THESIS_SECONDS:
            here.append(seconds(technique, workload, self.bits))
            advance(1 / len(THESIS_SECONDS))
        lines = {"thesis": list(map(float, THESIS_SECONDS.values())), "here": here}
        rows = [
            (t, s, f"{ours:.3f}", f"{s / ours:,.0f}") for (t, s), ours in zip(THESIS_SECONDS.items(), here, strict=True)
        ]
        return FigureReport(
            self.figure,
            self.title,
            ("technique", "thesis, seconds", "here, seconds", "ratio"),
            rows,
            {label: dict(enumerate(line)) for label, line in lines.items()},
            "technique",
            [Verdict(claim, holds(lines)) for claim, holds in self.claims.items()],
            y="seconds",
            ticks=tuple(THESIS_SECONDS),
        )


def seconds(technique: str, workload: Workload, bits: int) -> float:
    """The least of a few runs."""
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        if technique == "evs":
            workload.events.points().var(axis=0)
        else:
            sample = Sample.of(workload.events, workload.subscriptions)
            select(technique, Evidence(TrafficStatistics.of(sample), GridEvaluator(sample, bits)), SELECTED_DIMENSIONS)
        times.append(time.perf_counter() - start)
    return min(times)


def fastest(technique: str) -> Callable[[Times], bool]:
    return lambda times: all(sum(times[technique]) < sum(line) for name, line in times.items() if name != technique)


def slowest(technique: str) -> Callable[[Times], bool]:
    return lambda times: all(sum(times[technique]) > sum(line) for name, line in times.items() if name != technique)


def faster_than_the_thesis(times: Times) -> bool:
    """All but EVS, for which the thesis gives only an upper limit."""
    return all(ours < theirs for ours, theirs in list(zip(times["here"], times["thesis"], strict=True))[1:])

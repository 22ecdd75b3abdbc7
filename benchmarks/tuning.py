"""Dimension selection at the thesis's size: 1,000 subscriptions, 20,000 events, 8 dimensions, 24 bits."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.experiments.figures.run_times import THESIS_SECONDS
from pleroma.index import GridIndex, evaluate
from pleroma.selection.dimension_selection import select
from pleroma.selection.evidence import Evidence
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.workloads import THESIS, Workload, generate

STEPS = 12
BITS = 24
FEW_BITS = 12


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    workload = _workload(1_000, 20_000, 8)
    for technique in THESIS_SECONDS:  # compile what there is to compile
        select(technique, _evidence(_workload(20, 50, 3)), 2)
    seconds = {}
    for technique in THESIS_SECONDS:
        if technique == "evs":  # needs nothing but the events' values
            seconds[technique] = _seconds(lambda: workload.events.points().var(axis=0))
        else:
            seconds[technique] = _seconds(lambda t=technique: select(t, _evidence(workload), 4))  # type: ignore[misc]
        advance(1)
    sample = Sample.of(workload.events, workload.subscriptions)
    statistics = _seconds(lambda: TrafficStatistics.of(sample))
    growth = {}
    for name, size in {
        "events_x5": (1_000, 100_000, 8),
        "subscriptions_x10": (10_000, 20_000, 8),
        "dimensions_x2": (1_000, 20_000, 16),
        "both_large": (10_000, 100_000, 8),
    }.items():
        larger = _workload(*size)
        grown = Sample.of(larger.events, larger.subscriptions)
        growth[name] = round(_seconds(lambda grown=grown: TrafficStatistics.of(grown)) / statistics, 1)  # type: ignore[misc]
        advance(1)
    return {
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "thesis_seconds": THESIS_SECONDS,
        "events_per_s": round(sample.events / statistics),
        "growth": growth,
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "ratio_to_reference": _ratio_to_reference(),
    }


def _workload(subscriptions: int, events: int, dimensions: int) -> Workload:
    sizes = {"subscriptions": subscriptions, "events": events, "dimensions": dimensions}
    return generate(replace(THESIS, variance="random", seed=1, **sizes))  # type: ignore[arg-type]


def _evidence(workload: Workload, bits: int = BITS) -> Evidence:
    """From the raw workload, so that a technique's time is all it takes."""
    sample = Sample.of(workload.events, workload.subscriptions)
    return Evidence(TrafficStatistics.of(sample), GridEvaluator(sample, bits))


def _ratio_to_reference() -> float:
    """GES against its pseudo-code over the reference evaluator, on a case that the latter can finish."""
    workload = _workload(20, 60, 4)
    ours = _seconds(lambda: select("ges", _evidence(workload, FEW_BITS), 2))
    chosen: list[tuple[int, ...]] = []
    theirs = _seconds(lambda: chosen.append(_greedy(workload, 2)))
    assert chosen[0] == select("ges", _evidence(workload, FEW_BITS), 2), "the two selections disagree"
    return round(theirs / ours, 1)


def _greedy(workload: Workload, count: int) -> tuple[int, ...]:
    """Grunert 2014, Algorithm 13."""
    events = list(workload.events)
    names = workload.schema.names
    dims = tuple(range(len(names)))
    while len(dims) > count:
        fewer = [tuple(d for d in dims if d != gone) for gone in dims]
        rates = []
        for each in fewer:
            index = GridIndex.regular(workload.schema, FEW_BITS, [names[d] for d in each])
            rates.append(evaluate(index, workload.subscriptions, events).deliveries)
        dims = fewer[rates.index(min(rates))]
    return dims


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start

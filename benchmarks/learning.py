"""Learning a tree of 16,384 leaves from 100,000 events and 10,000 subscriptions, and encoding with one of 4,096."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pleroma.evaluation.judge import judge_tree
from pleroma.evaluation.sample import Sample
from pleroma.index import IndexPlan, TreeIndex
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.workloads import THESIS, Workload, generate
from pleroma.workloads.model import Distribution

STEPS = 12
BITS = 23
LEAVES = 16_384
ENCODED = 4_096


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    small = _workload(50, 400)
    learn(Sample.of(small.events, small.subscriptions), BITS, Budget(leaves=20))  # compile what there is to compile
    workload, unseen = _workload(10_000, 100_000), _workload(10_000, 20_000, 1)
    sample = Sample.of(workload.events, workload.subscriptions)
    start = time.perf_counter()
    learned = learn(sample, BITS, Budget(leaves=LEAVES), advance=advance)
    seconds = time.perf_counter() - start
    judged = judge_tree(learned.index, Sample.of(unseen.events, workload.subscriptions))
    crowded = _workload(10_000, 100_000, distribution="zipfian")
    dense = Sample.of(crowded.events, crowded.subscriptions)
    start = time.perf_counter()
    learn(dense, BITS, Budget(leaves=LEAVES), advance=advance)
    zipfian = time.perf_counter() - start
    short = learn(sample, BITS, Budget(leaves=ENCODED), smoothing="as seen").index
    advance(1)
    points = np.tile(workload.events.points(), (5, 1))
    rates = [_rate(short, points) for _ in range(3)]
    advance(1)
    return {
        "learn_s": round(seconds, 2),
        "learn_zipfian_s": round(zipfian, 2),
        "leaves": learned.index.leaves,
        "rules": learned.rules,
        "smoothing": learned.smoothing,
        "waste": round(judged.waste.rate, 3),
        "plan_kib": round(len(IndexPlan(1, learned.index).dumps()) / 1024),
        "encode_events_per_s": round(max(rates)),
        "encode_leaves": short.leaves,
        "ratio_to_one_by_one": round(max(rates) / _one_by_one(short, workload), 1),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def _workload(subscriptions: int, events: int, other: int = 0, distribution: Distribution = "uniform") -> Workload:
    """The same subscriptions, and with `other` events drawn beyond those of the first."""
    made = generate(
        replace(THESIS, subscriptions=subscriptions, events=events + 100_000 * other, seed=1, distribution=distribution)
    )
    return replace(made, events=made.events[len(made.events) - events :])


def _rate(index: TreeIndex, points: Any) -> float:
    start = time.perf_counter()
    index.encode(points)
    return len(points) / (time.perf_counter() - start)


def _one_by_one(index: TreeIndex, workload: Workload) -> float:
    """Events a second in plain Python, as a sensor without a compiler does."""
    events = list(workload.events[:5_000])
    start = time.perf_counter()
    for event in events:
        index.dz(event)
    return len(events) / (time.perf_counter() - start)

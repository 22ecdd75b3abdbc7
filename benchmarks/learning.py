"""Learning a tree of 16,384 leaves from 100,000 events and 10,000 subscriptions, and encoding with one of 4,096.

Then what a tuner asks for: advice on 100,000 events and 1,000 subscriptions at the hosts of a fat tree, on one core.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pleroma.evaluation.judge import judge_tree
from pleroma.evaluation.placement import placement_of
from pleroma.evaluation.sample import Sample
from pleroma.index import IndexPlan, TreeIndex
from pleroma.learning.fitting import DEFAULT_RULES, Budget
from pleroma.learning.learner import learn
from pleroma.routing import build
from pleroma.selection.advice import LEARNED, Advice, AdviceQuestion, advise
from pleroma.workloads import THESIS, Workload, generate
from pleroma.workloads.model import Distribution

STEPS = 14
BITS = 23
LEAVES = 16_384
ENCODED = 4_096
ADVISED_NETWORK = "fat-tree:4"
ADVISED_SUBSCRIPTIONS = 1_000


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
    with _one_core():
        advice = _advice(advance)
    return advice | {
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


@contextmanager
def _one_core() -> Iterator[None]:
    """This thread, and threads that it starts, run on one core of those that it may use."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _advice(advance: Callable[[float], None]) -> dict[str, Any]:
    """The tree alone, as by default, then a comparison with the same rules and members."""
    few = {"selections": ("ges",), "splits": ("regular", "adaptive", "selective")}
    _advised(_workload(50, 400, distribution="zipfian"), rules=100, compare=True, **few)  # compile what is left
    crowded = _workload(ADVISED_SUBSCRIPTIONS, 100_000, distribution="zipfian")
    alone_s, (alone,) = _advised(crowded)
    advance(1)
    compare_s, found = _advised(crowded, rules=DEFAULT_RULES, max_members=alone.members, compare=True)
    advance(1)
    others = [each.outcome for each in found if each.technique != LEARNED and each.outcome.rules <= DEFAULT_RULES]
    return {
        "advice_s": round(alone_s, 2),
        "advice_compare_s": round(compare_s, 2),
        "advice_waste": round(alone.outcome.waste.rate, 3),
        "advice_compare_waste": round(found[0].outcome.waste.rate, 3),
        "advice_papers_waste": round(min(each.waste.rate for each in others), 3),
        "advice_members": alone.members,
        "advice_rules": alone.outcome.rules,
    }


def _advised(workload: Workload, **asked: Any) -> tuple[float, list[Advice]]:
    """Seconds for advice at the hosts of a network, the placement and the summary of the traffic included."""
    start = time.perf_counter()
    placement = placement_of(build(ADVISED_NETWORK), len(workload.subscriptions))
    found = advise(workload.events, AdviceQuestion(workload.subscriptions, BITS, placement=placement, **asked))
    return time.perf_counter() - start, found


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

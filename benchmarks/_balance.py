"""One tree, a forest and balanced trees on a fat tree: how busy cables between switches get, and what rules it takes.

The same events, that no tree was dealt by, go from the same hosts to the same subscribers; only the trees differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pleroma.evaluation.sample import Sample
from pleroma.index import GridIndex, Index
from pleroma.learning.fitting import DEFAULT_RULES, Budget
from pleroma.learning.learner import learn
from pleroma.routing import PublisherForest, build
from pleroma.routing.balancing import MAX_DEALT_TREES
from pleroma.switches.simulated.simulation import Simulation, simulate
from pleroma.workloads import EXPRESSIVE, StockModel, Workload, generate, generate_stock

NETWORK = "fat-tree:4"
SUBSCRIPTIONS = 400
ZIPFIAN_EVENTS = 20_000
INDEX_BITS = 23
CASES = 4
"""Two workloads, each with a regular grid and with a learned tree."""


def balance(advance: Callable[[float], None]) -> dict[str, Any]:
    """Ratios to one tree. The first figures are the worst of all cases; `balance` has each."""
    cases: dict[str, dict[str, Any]] = {}
    for name, workload in (("zipfian", _zipfian()), ("stock", _quotes())):
        learned = len(workload.events) // 5
        sample = Sample.of(workload.events[:learned], workload.subscriptions)
        indexes: dict[str, Index] = {
            "grid": GridIndex.regular(workload.schema, INDEX_BITS),
            "learned": learn(sample, INDEX_BITS, Budget(rules=DEFAULT_RULES)).index,
        }
        for kind, index in indexes.items():
            cases[f"{name}, {kind}"] = _compared(workload, index, learned)
            advance(1)
    keys = [key for key in next(iter(cases.values())) if key.endswith("_ratio")]
    return {key: max(case[key] for case in cases.values()) for key in keys} | {"balance": cases}


def _zipfian() -> Workload:
    settings: dict[str, Any] = {"width": 0.2, "placement": "inside", "distribution": "zipfian"}
    return generate(replace(EXPRESSIVE, subscriptions=SUBSCRIPTIONS, events=ZIPFIAN_EVENTS, **settings))


def _quotes() -> Workload:
    """Quotes in a random order: by date, the first fifth would be of other prices than the rest."""
    workload = generate_stock(StockModel(subscriptions=SUBSCRIPTIONS))
    order = np.random.default_rng(61).permutation(len(workload.events))
    return replace(workload, events=workload.events[order])


def _compared(workload: Workload, index: Index, learned: int) -> dict[str, Any]:
    topology, others = build(NETWORK), replace(workload, events=workload.events[learned:])
    single = simulate(topology, others, index)
    forest = simulate(topology, others, index, policy=PublisherForest())
    balanced = simulate(topology, workload, index, balanced=MAX_DEALT_TREES)
    for result in (single, forest, balanced):
        assert result.missed == 0, f"{result.missed} wanted events did not arrive"
        assert not result.forwarding.duplicates.any(), "a host got an event twice"
        assert result.waste.wanted == single.waste.wanted, "not the same events"
    return {
        "busiest_link_ratio": _ratio(balanced, single, _busiest),
        "busiest_direction_ratio": _ratio(balanced, single, lambda each: each.cable_loads.busiest_direction),
        "crossings_ratio": _ratio(balanced, single, lambda each: each.cable_loads.crossings),
        "balanced_rules_ratio": _ratio(balanced, single, lambda each: sum(each.rules)),
        "balanced_fullest_ratio": _ratio(balanced, single, lambda each: max(each.rules)),
        "forest_busiest_link_ratio": _ratio(forest, single, _busiest),
        "forest_rules_ratio": _ratio(forest, single, lambda each: sum(each.rules)),
        "forest_fullest_ratio": _ratio(forest, single, lambda each: max(each.rules)),
        "trees": len(balanced.router.families),
        "deal_s": round(balanced.seconds["deal"], 2),
        "busiest_link_events": {"single": round(_busiest(single)), "balanced": round(_busiest(balanced))},
    }


def _busiest(result: Simulation) -> float:
    return result.cable_loads.busiest


def _ratio(result: Simulation, to: Simulation, figure: Callable[[Simulation], float]) -> float:
    return round(figure(result) / figure(to), 3)

"""Growing a tree anew only where that wins most of what another tree, learned anew as a whole, would win.

A plan change moves the network only below the nodes where two trees differ. So few nodes with little traffic and few
leaves that hold most of the saving are grown anew, with all the rules that the rest of the tree leaves them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pleroma.evaluation.placement import Spread
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of
from pleroma.index import Dz, TreeIndex
from pleroma.learning.fitting import MAX_SPLITS, WORTHWHILE_RATIO, Budget, SwitchTables, fitted
from pleroma.learning.part_growth import PartGrowth
from pleroma.learning.rule_counts import SplitSequence
from pleroma.learning.smoothing import SMOOTHINGS
from pleroma.learning.tree_ageing import TreeAgeing

WON_SHARE = 0.9
"""It is enough if so much is won of what the other tree wins."""
ATTEMPTS = ((0.9, 0.25), (0.95, 0.5), (1.0, 1.0))
"""What the nodes hold of what the other tree wins, and their leaves as a share of those that it has there, at least.

The next attempt is made if the one before does not win `WON_SHARE`.
"""
MAX_AGED_SHARE = 0.5
"""If the nodes have more of the events or of the leaves, the tree has aged as a whole, and none is grown anew."""
MAX_LEAVES_RATIO = 2
"""The tree has at most so many times the leaves of the other: leaves that nobody wants need no rules, but stay."""


@dataclass(frozen=True, slots=True)
class LocalGrowth:
    index: TreeIndex
    nodes: tuple[Dz, ...]
    """Below these, and nowhere else, the tree may differ from the one in force. None is inside another."""
    traffic: float
    """The share of the events in these nodes."""
    rules: int
    """The rules of the fullest switch."""


def grown_where_better(
    index: TreeIndex,
    whole: TreeIndex,
    sample: Sample,
    judging: Sample,
    budget: Budget,
    *,
    spread: Spread = (),
    smoothing: str = "neighbours",
    patient: bool = True,
    max_cells: int = 8,
    seed: int = 0,
) -> LocalGrowth | None:
    """The tree in force, grown anew in few places; None where that does not win most of what `whole` does.

    `whole` is learned from `sample` within the budget, with this smoothing and patience. `judging` has other events for
    the same boxes; owners and spread are as in `learn`. No switch gets more rules than its own limit. Outside of the
    nodes every event is delivered as before. Inside, an event may be delivered more often, where cuts are given up for
    better ones, but the judging events are delivered less often in sum.
    """
    ageing = TreeAgeing.of(index, whole, sample, judging)
    if ageing.saved[0] <= 0:
        return None
    most = min(MAX_LEAVES_RATIO * whole.leaves, budget.leaves or MAX_SPLITS)
    limits = replace(budget, leaves=most)
    tables, splits = SwitchTables(sample, limits, spread), SplitSequence.of(index)
    leaves = min(int(index.leaves * tables.room(tables.rules(splits), splits.made)), most)
    seen = SMOOTHINGS[smoothing](sample, np.random.default_rng([seed, 2]))
    before = deliveries_of(index, judging)
    best, most_won = None, 0
    for held, share in ATTEMPTS:
        aged = ageing.nodes(held, share, leaves - index.leaves, max_cells)
        if aged is None or max(aged.traffic, aged.leaves) > MAX_AGED_SHARE:
            break
        nodes = tuple(Dz(index.layout.codes[node]) for node in aged.nodes.tolist())
        growth = PartGrowth(index, nodes, sample, seen, leaves if patient else 0)
        if growth.kept >= most:
            continue
        grown, rules = fitted(growth, limits, spread, max(int(WORTHWHILE_RATIO * leaves), growth.kept + 1))
        if grown.leaves <= growth.kept:  # what is kept has too many rules
            continue
        won = before - deliveries_of(grown, judging)
        if won > most_won:
            best, most_won = LocalGrowth(grown, nodes, aged.traffic, rules), won
        if won >= WON_SHARE * ageing.saved[0]:
            break
    return best

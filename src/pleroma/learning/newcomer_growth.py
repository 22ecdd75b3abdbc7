"""Growing a tree on for subscriptions that may come: with cuts that those in force have no use for.

A leaf that everybody wants whole, or nobody wants, is never cut for those who are there. Whoever comes later and wants
a part of it gets all of it until the next plan. Cuts there cost next to no rules meanwhile.
"""

from __future__ import annotations

import numpy as np

from pleroma.evaluation.placement import Spread
from pleroma.evaluation.sample import Sample
from pleroma.index import TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.learning.fitting import Budget, SwitchTables
from pleroma.learning.growth import GrowthLimits, RankedTraffic, grown_on, root_alone
from pleroma.learning.learner import candidate_cuts, ranked_boxes, ranks_of
from pleroma.learning.rule_counts import SplitSequence
from pleroma.learning.smoothing import SMOOTHINGS


def grown_for_newcomers(
    index: TreeIndex,
    known: Sample,
    expected: Sample,
    budget: Budget,
    *,
    spread: Spread = (),
    max_leaves: int,
    seed: int = 0,
) -> TreeIndex:
    """The tree with at most so many more leaves, which tell apart the boxes of `expected`.

    Owners, budget and spread are those of `known`, as in `learn`: no switch gets more rules for it than the budget
    allows. The boxes of `expected` need none.
    """
    seen = SMOOTHINGS["neighbours"](expected, np.random.default_rng([seed, 5]))
    first = SplitSequence.of(index)
    cuts = [
        np.union1d(candidate_cuts(expected, d, None), first.cuts[first.dims == d]) for d in range(len(index.schema))
    ]
    at = np.zeros(len(first.dims), np.int64)
    for d, each in enumerate(cuts):
        at[first.dims == d] = np.searchsorted(each, first.cuts[first.dims == d])
    traffic = RankedTraffic(ranks_of(cuts, seen.points), seen.weight, ranked_boxes(cuts, expected))
    root = root_alone(len(seen.points), np.array([len(each) for each in cuts], np.int64))
    limits = GrowthLimits(index.bits, first.made + max_leaves, 0)
    nodes = grown_on(root, (first.dims, at, first.child), traffic, limits).nodes
    values = np.zeros(len(nodes.dim))
    for d, each in enumerate(cuts):
        values[nodes.dim == d] = each[nodes.at[nodes.dim == d]]
    made = SplitSequence(np.where(nodes.child > 0, nodes.dim, LEAF), values, nodes.child)
    tables = SwitchTables(known, budget, spread)
    return made.tree(index.schema, index.bits, max(tables.largest(tables.rules(made), made.made), first.made))

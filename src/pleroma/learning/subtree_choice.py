"""Which subtrees of a tree to choose, if few of them shall be worth much and be as light as possible.

The best subtrees at a price (their worth, less the price times their weight) come from the best ones of both halves,
node by node. The price is raised as long as the subtrees are enough for the caller: each price gives subtrees that no
others of the same worth are lighter than.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.index import TreeIndex

ROUNDING = 1e-9
"""Values that differ by a smaller share are equal."""


class SubtreeChoice(NamedTuple):
    """Nodes, none inside another, with their worth and their weight in sum."""

    nodes: Ints
    worth: float
    weight: float


def lightest_subtrees(
    index: TreeIndex, worth: Floats, weight: Floats, max_nodes: int, enough: Callable[[Ints], bool]
) -> SubtreeChoice | None:
    """At most `max_nodes` nodes that are enough, or None where those of most worth are not.

    `worth` and `weight` are by node. A node that is worth less than nothing is not chosen.
    """
    tables = index.tables

    def best_at(price: float) -> SubtreeChoice:
        nodes = _best(tables.dims, tables.right, worth - price * weight, max_nodes)
        return SubtreeChoice(nodes, float(worth[nodes].sum()), float(weight[nodes].sum()))

    chosen, less = best_at(0.0), SubtreeChoice(np.zeros(0, np.int64), 0.0, 0.0)
    if not enough(chosen.nodes):
        return None
    while chosen.weight > less.weight:
        price = (chosen.worth - less.worth) / (chosen.weight - less.weight)
        found = best_at(price)
        known = chosen.worth - price * chosen.weight
        if found.worth - price * found.weight <= known + ROUNDING * abs(chosen.worth):
            break
        if enough(found.nodes):
            chosen = found
        else:
            less = found
    return chosen


@compiled
def _best(dims: Ints, right: Ints, value: Floats, most: Int) -> Ints:
    """The nodes, none inside another and at most so many, whose values have the largest sum; in preorder."""
    size = dims.shape[0]
    best = np.zeros((size, most + 1))  # by node and how many may be chosen of its subtree
    lower = np.zeros((size, most + 1), np.int64)  # how many of them are in the lower half; -1 if it is the node itself
    for node in range(size - 1, -1, -1):
        for count in range(1, most + 1):
            found, way = 0.0, 0
            if dims[node] >= 0:
                for below in range(count + 1):
                    both = best[node + 1, below] + best[right[node], count - below]
                    if both > found:
                        found, way = both, below
            if value[node] > found:
                found, way = value[node], -1
            best[node, count], lower[node, count] = found, way
    chosen = np.empty(most, np.int64)
    stack = np.empty((size + 1, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, most
    top, made = 1, 0
    while top:
        top -= 1
        node, count = stack[top]
        if best[node, count] <= 0.0:
            continue
        below = lower[node, count]
        if below < 0:
            chosen[made] = node
            made += 1
        else:
            stack[top, 0], stack[top, 1] = right[node], count - below
            stack[top + 1, 0], stack[top + 1, 1] = node + 1, below
            top += 2
    return chosen[:made]

"""What a tree delivers and the rules it needs, counted over its leaves without making a cover.

The leaves that a subscriber's boxes meet are found once; from them follow what it is delivered and, merged upwards as
far as they fill a node, the dz it needs. The distinct ones of all subscribers are a star's rules, save those that are
filled by longer ones: no event would follow them. So every rule is the longest around some leaf of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.evaluation.sample import Sample
from pleroma.index import TreeIndex


class Nodes(NamedTuple):
    """A tree in preorder, as `TreeTables` has it."""

    dims: Ints
    cuts: Floats
    right: Ints
    parent: Ints


def deliveries_of(index: TreeIndex, sample: Sample) -> int:
    return _counted(_nodes(index), sample, _events(index, sample))[0]


def rules_of(tree: TreeIndex | Nodes, sample: Sample) -> int:
    """What the subscriptions need, whatever the events."""
    nodes = tree if isinstance(tree, Nodes) else _nodes(tree)
    return _counted(nodes, sample, np.zeros(len(nodes.dims), np.int64))[1]


def load_of(index: TreeIndex, sample: Sample) -> tuple[Ints, Ints]:
    """By leaf, as it stands among the nodes: its events and the owners that meet it. Other nodes have none."""
    events = _events(index, sample)
    return events, _counted(_nodes(index), sample, events)[2]


def _events(index: TreeIndex, sample: Sample) -> Ints:
    leaves = index.tables.leaves_of(sample.points)
    return np.bincount(leaves, minlength=len(index.dimensions)).astype(np.int64)


def _nodes(index: TreeIndex) -> Nodes:
    tables = index.tables
    return Nodes(tables.dims, tables.cuts, tables.right, tables.parent)


def _counted(nodes: Nodes, sample: Sample, events: Ints) -> tuple[int, int, Ints]:
    found, rules, met = _count(*nodes, sample.first, sample.last, sample.owner, events)
    return int(found), int(rules.sum()), met


@compiled
def _count(
    dims: Ints, cuts: Floats, right: Ints, parent: Ints, first: Floats, last: Floats, owner: Ints, events: Ints
) -> tuple[Int, NDArray[np.bool_], Ints]:
    """Deliveries, the nodes that are rules, and the owners that meet each leaf. Boxes of an owner stand together."""
    size = dims.shape[0]
    rules = np.zeros(size, np.bool_)
    overlap = np.zeros(size, np.int64)
    stamp = np.full(size, -1, np.int64)
    leaves = np.empty(size, np.int64)
    stack = np.empty(256, np.int64)
    whole = np.empty(size, np.int64)
    total: Int = 0
    box = 0
    while box < first.shape[0]:
        mine = owner[box]
        found = 0
        several = False
        while box < first.shape[0] and owner[box] == mine:
            several = several or found > 0
            top = 1
            stack[0] = 0
            while top:
                top -= 1
                node = stack[top]
                d = dims[node]
                while d >= 0:
                    cut = cuts[node]
                    if last[box, d] < cut:
                        node += 1
                    elif first[box, d] >= cut:
                        node = right[node]
                    else:
                        stack[top] = right[node]
                        top += 1
                        node += 1
                    d = dims[node]
                if stamp[node] != mine:
                    stamp[node] = mine
                    leaves[found] = node
                    found += 1
            box += 1
        if several:
            leaves[:found] = np.sort(leaves[:found])
        kept = 0
        for i in range(found):
            node = leaves[i]
            total += events[node]
            overlap[node] += 1
            while kept and node and whole[kept - 1] == parent[node] + 1 and node != parent[node] + 1:
                kept -= 1
                node = parent[node]
            whole[kept] = node
            kept += 1
        for i in range(kept):
            rules[whole[i]] = True
    full = rules.copy()
    for node in range(size - 1, -1, -1):
        if dims[node] >= 0 and full[node + 1] and full[right[node]]:
            full[node] = True
            rules[node] = False
    return total, rules, overlap

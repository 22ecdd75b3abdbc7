"""Ways through a tree of splits: plain Python over sequences, which `tree_codes` compiles over arrays as it stands.

Nodes stand in preorder: the lower child follows its parent, the upper child is at `right`, and the subtree of a node
ends before `end`. So a subtree is a stretch of nodes, and half of them, rounded up, are its leaves.
"""

from __future__ import annotations

import heapq
from typing import Any

from pleroma.index.cover import MAX_REFINED_CELLS

Numbers = Any
"""A list, or an array for compiled code."""

LEAF = -1


def meet(dims: Numbers, cuts: Numbers, right: Numbers, first: Numbers, last: Numbers, met: Any) -> None:
    """Mark the leaves in which a box may be met: coordinates from `first` to `last`, both included."""
    stack = [0]
    while len(stack) > 0:
        node = stack.pop()
        d = dims[node]
        while d != LEAF:
            if last[d] >= cuts[node]:
                if first[d] < cuts[node]:
                    stack.append(right[node])
                    node += 1
                else:
                    node = right[node]
            else:
                node += 1
            d = dims[node]
        met[node] = 1


def merged(dims: Numbers, parent: Numbers, met: Numbers) -> list[int]:
    """The fewest nodes whose leaves are the marked ones, in preorder."""
    found = [0]
    found.pop()
    for leaf in range(len(dims)):
        if dims[leaf] != LEAF or not met[leaf]:
            continue
        node = leaf
        while len(found) > 0 and node > 0 and found[-1] == parent[node] + 1 and node != parent[node] + 1:
            found.pop()
            node = parent[node]
        found.append(node)
    return found


def refined(
    dims: Numbers, right: Numbers, end: Numbers, depth: Numbers, counts: Numbers, length: int, enough: int
) -> tuple[list[int], list[int]]:
    """Nodes that enclose the marked leaves, cut where most leaves are not marked, until there are enough of them.

    `counts` has the marked leaves of each node. Returns nodes of the tree and, for each, the place of its two parts in
    the same list (0: it has none). A node is pulled down to the smallest that has the same marked leaves.
    """
    nodes = [0]
    child = [0]
    heap = [(0, 0)]
    heap.pop()
    leaves = 1
    todo = [0]
    while True:
        while len(todo) > 0:
            place = todo.pop()
            node = nodes[place]
            while dims[node] != LEAF and depth[node] < length:
                below, above = counts[node + 1], counts[right[node]]
                if below > 0 and above > 0:
                    missing = (end[node] - node + 1) // 2 - counts[node]
                    if missing > 0:
                        heapq.heappush(heap, (-missing, place))
                    break
                node = node + 1 if below > 0 else right[node]
            nodes[place] = node
        if len(heap) == 0 or leaves >= enough:
            break
        _, place = heapq.heappop(heap)
        child[place] = len(nodes)
        for new in (nodes[place] + 1, right[nodes[place]]):
            todo.append(len(nodes))
            nodes.append(new)
            child.append(0)
        leaves += 1
    return nodes, child


def enough(max_members: int | None, nodes: int) -> int:
    """To how many nodes a cover is refined before the best members are kept."""
    return nodes if max_members is None else max(max_members, min(4 * max_members, MAX_REFINED_CELLS))

"""Growing a decision tree over the event space: take the leaf whose cut saves most, cut it, value the two halves.

Every coordinate is first a rank: the number of candidate cuts at or below it. One pass over the events and boxes of a
node counts what both sides of every cut would deliver (`cuts`). A tree can be grown further at any time, and is then
what it would be if it had been grown so far at once.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.learning.cuts import (
    MAX_BINS,
    BinnedNode,
    CutScratch,
    RankedBoxes,
    Ranks,
    best_of,
    can_wait,
    cut_scratch,
    met_by,
)


class RankedTraffic(NamedTuple):
    """What a tree is grown for: events and boxes, as ranks."""

    ranks: Ranks
    """By dimension and event."""
    weight: Floats
    """By event."""
    boxes: RankedBoxes


class GrowthLimits(NamedTuple):
    """How far a tree is grown."""

    bits: int
    """No leaf is deeper."""
    splits: int
    """So many at most, those made before among them."""
    leaves: int
    """The number of leaves that the tree is meant to have, or 0.

    Nodes that `can_wait` are cut for what they will cost in a tree of so many leaves, the others for what they cost
    now; with 0, all are. Which node is cut next is in any case decided by what its cut saves now.
    """


class TreeNodes(NamedTuple):
    """What is known of every node.

    Node 0 is the root, children are neighbours, and the children of the k-th split are nodes 2k + 1 and 2k + 2: the
    tree after fewer splits is a beginning of the arrays.
    """

    dim: Ints
    """By node: the dimension in which it is cut, -1 for a leaf."""
    at: Ints
    """By node: the rank of its cut."""
    child: Ints
    """By node: its first child, 0 for a leaf."""
    cost: Floats
    depth: Ints
    low: Ints
    """By node and dimension: the first rank inside."""
    high: Ints
    """By node and dimension: the last rank inside."""
    begin: Ints
    """By node: where its events begin in `order`."""
    end: Ints
    """By node: where its events end in `order`."""


class GrownTree(NamedTuple):
    """A tree as far as it is grown, and what it takes to go on."""

    nodes: TreeNodes
    valued: Int
    """The cost and the best cut of so many nodes are known."""
    order: Ranks
    """All events, those of a node together."""
    waiting: Ints
    """A heap of leaves that are worth a cut: node, dimension, rank."""
    gain: Floats
    """By waiting leaf: what its cut saves, negative."""
    boxes: Ranks
    """The boxes that meet the waiting leaves, one leaf after the other."""
    bounds: Ints
    """By waiting leaf: where its boxes begin in `boxes`, and behind the last, where they end."""


class _Growth(NamedTuple):
    """A tree while it is grown."""

    nodes: TreeNodes
    """Arrays with room for all nodes to come."""
    order: Ranks
    spare: Ranks
    """Room for the events of one node."""
    heap: list[tuple[float, Int, Int, Int]]
    """Leaves that are worth a cut: what it saves, negative, then node, dimension and rank."""
    boxes: list[Ranks]
    """By node: the boxes that meet it, none unless it waits or is to be valued."""
    binned: BinnedNode
    """Room for the bins of one node."""
    scratch: CutScratch


def root_alone(events: int, cuts: Ints) -> GrownTree:
    """A tree before its first split. `cuts[d]` is how many candidate cuts dimension d has."""
    zero = np.zeros(1, np.int64)
    nodes = TreeNodes(
        dim=np.array([-1]),
        at=zero,
        child=zero,
        cost=np.zeros(1),
        depth=zero,
        low=np.zeros((1, len(cuts)), np.int64),
        high=cuts.astype(np.int64)[None, :],
        begin=zero,
        end=np.array([events]),
    )
    return GrownTree(
        nodes,
        valued=0,
        order=np.arange(events, dtype=np.int32),
        waiting=np.zeros((0, 3), np.int64),
        gain=np.zeros(0),
        boxes=np.zeros(0, np.int32),
        bounds=zero,
    )


@compiled
def grow(tree: GrownTree, traffic: RankedTraffic, limits: GrowthLimits) -> GrownTree:
    """The tree grown further, as far as the limits allow or any cut saves something."""
    growth = _begun(tree, traffic, limits)
    valued, count = tree.valued, tree.nodes.dim.shape[0]
    while True:
        for node in range(valued, count):
            _value(growth, node, traffic, limits)
        valued = count
        if count // 2 >= limits.splits or len(growth.heap) == 0:
            return _ended(growth, count)
        _cut_best(growth, count, traffic)
        count += 2


@compiled
def grown_on(
    root: GrownTree, first: tuple[Ints, Ints, Ints], traffic: RankedTraffic, limits: GrowthLimits
) -> GrownTree:
    """The tree of some splits, grown further. `first` has their dimension, rank and first child by node.

    They are in the order of `TreeNodes`. What each of them saves is not asked.
    """
    growth = _begun(root, traffic, limits)
    dims, ranks, child = first
    cut = np.zeros(dims.shape[0] // 2, np.int64)
    for node in range(dims.shape[0]):
        if child[node]:
            cut[child[node] // 2] = node
    count = 1
    for node in cut:
        heapq.heappush(growth.heap, (0.0, node, dims[node], ranks[node]))
        _cut_best(growth, count, traffic)
        count += 2
    for node in range(count):
        if growth.nodes.child[node] == 0:
            _value(growth, node, traffic, limits)
    while count // 2 < limits.splits and len(growth.heap) > 0:
        _cut_best(growth, count, traffic)
        for node in range(count, count + 2):
            _value(growth, node, traffic, limits)
        count += 2
    return _ended(growth, count)


@compiled
def _value(growth: _Growth, node: Int, traffic: RankedTraffic, limits: GrowthLimits) -> None:
    """Find what a new leaf costs and its best cut; put it on the heap if that saves something."""
    cost, scratch, boxes = growth.nodes.cost, growth.scratch, growth.boxes[node]
    events = growth.order[growth.nodes.begin[node] : growth.nodes.end[node]]
    cost[node] = traffic.weight[events].sum() * met_by(boxes, traffic.boxes, scratch)
    gain: float = 0.0
    d: Int = np.int64(-1)
    k: Int = np.int64(0)
    bits = limits.bits - growth.nodes.depth[node]
    if bits > 0 and cost[node] > 0.0:
        binned = _binned(growth, node, events, traffic)
        patient = can_wait(cost[node], cost[0], limits.leaves, bits)
        gain, d, k = best_of(binned, boxes, traffic.boxes, patient, scratch)
    if gain > 0.0:
        heapq.heappush(growth.heap, (-gain, np.int64(node), d, k))
    else:
        growth.boxes[node] = _no_boxes()


@compiled
def _cut_best(growth: _Growth, count: Int, traffic: RankedTraffic) -> None:
    """Cut the leaf whose cut saves most; its halves become nodes `count` and `count + 1`."""
    dim, at, child, _, depth, low, high, begin, end = growth.nodes
    _, node, d, k = heapq.heappop(growth.heap)
    dim[node], at[node], child[node] = d, k, count
    middle = _part(traffic.ranks[d], k, growth.order, growth.spare, begin[node], end[node])
    for half in range(count, count + 2):
        depth[half] = depth[node] + 1
        low[half], high[half] = low[node], high[node]
        begin[half], end[half] = begin[node], end[node]
    high[count, d], low[count + 1, d] = k, k + 1
    end[count] = begin[count + 1] = middle
    boxes = growth.boxes[node]
    growth.boxes.append(boxes[traffic.boxes.first[d][boxes] <= k])
    growth.boxes.append(boxes[traffic.boxes.last[d][boxes] > k])
    growth.boxes[node] = _no_boxes()


@compiled
def _part(rank: Ranks, k: Int, order: Ranks, spare: Ranks, begin: Int, end: Int) -> Int:
    """Sort the events from `begin` to `end` by whether their rank is at most k; where those above k begin."""
    middle, others = begin, 0
    for i in range(begin, end):
        event = order[i]
        if rank[event] <= k:
            order[middle] = event
            middle += 1
        else:
            spare[others] = event
            others += 1
    order[middle:end] = spare[:others]
    return middle


@compiled
def _binned(growth: _Growth, node: Int, events: Ranks, traffic: RankedTraffic) -> BinnedNode:
    """The weight of a node's events by bin, `MAX_BINS` places for each dimension."""
    _, _, bins, shift, offset, weights = growth.binned
    low, high = growth.nodes.low[node], growth.nodes.high[node]
    ranks, weight = traffic.ranks, traffic.weight
    for d in range(low.shape[0]):
        span, by = high[d] - low[d], 0
        while span >> by >= MAX_BINS:
            by += 1
        bins[d], shift[d] = (span >> by) + 1 if span else 0, by
        mine = weights[offset[d] : offset[d] + bins[d]]
        mine[:] = 0.0
        if span:
            for event in events:
                mine[(ranks[d, event] - low[d]) >> by] += weight[event]
    return BinnedNode(low, high, bins, shift, offset, weights)


@compiled
def _begun(tree: GrownTree, traffic: RankedTraffic, limits: GrowthLimits) -> _Growth:
    """The tree in arrays with room for all its nodes to come, and its waiting leaves with their boxes in lists."""
    count = tree.nodes.dim.shape[0]
    nodes = _with_room(tree.nodes, max(2 * limits.splits + 1, count))
    boxes = [_no_boxes() for _ in range(count)]
    if not tree.valued:
        boxes[0] = np.arange(traffic.boxes.first.shape[1]).astype(np.int32)
    heap: list[tuple[float, Int, Int, Int]] = [(0.0, np.int64(0), np.int64(0), np.int64(0))]
    heap.pop()
    for i in range(tree.gain.shape[0]):
        node, d, k = tree.waiting[i]
        heap.append((tree.gain[i], node, d, k))
        boxes[node] = tree.boxes[tree.bounds[i] : tree.bounds[i + 1]].copy()
    dims = traffic.ranks.shape[0]
    places = np.arange(dims) * MAX_BINS
    binned = BinnedNode(nodes.low[0], nodes.high[0], places.copy(), places.copy(), places, np.empty(dims * MAX_BINS))
    return _Growth(nodes, tree.order.copy(), np.empty_like(tree.order), heap, boxes, binned, cut_scratch(traffic.boxes))


@compiled
def _with_room(nodes: TreeNodes, room: Int) -> TreeNodes:
    """The nodes at the beginning of longer arrays; all nodes to come are leaves."""
    dim, at, child, cost, depth, low, high, begin, end = nodes
    leaves = np.full(room, -1, np.int64)
    leaves[: dim.shape[0]] = dim
    lowest, highest = np.zeros((room, low.shape[1]), np.int64), np.zeros((room, high.shape[1]), np.int64)
    lowest[: low.shape[0]], highest[: high.shape[0]] = low, high
    return TreeNodes(
        leaves,
        _longer(at, room),
        _longer(child, room),
        _longer(cost, room),
        _longer(depth, room),
        lowest,
        highest,
        _longer(begin, room),
        _longer(end, room),
    )


@compiled
def _ended(growth: _Growth, count: Int) -> GrownTree:
    """The tree without room, and its waiting leaves with their boxes in arrays."""
    heap, boxes = growth.heap, growth.boxes
    waiting = np.empty((len(heap), 3), np.int64)
    gain = np.empty(len(heap))
    bounds = np.zeros(len(heap) + 1, np.int64)
    for i in range(len(heap)):
        gain[i], waiting[i, 0], waiting[i, 1], waiting[i, 2] = heap[i]
        bounds[i + 1] = bounds[i] + boxes[waiting[i, 0]].shape[0]
    meeting = np.empty(bounds[-1], np.int32)
    for i in range(len(heap)):
        meeting[bounds[i] : bounds[i + 1]] = boxes[waiting[i, 0]]
    dim, at, child, cost, depth, low, high, begin, end = growth.nodes
    nodes = TreeNodes(
        dim[:count],
        at[:count],
        child[:count],
        cost[:count],
        depth[:count],
        low[:count],
        high[:count],
        begin[:count],
        end[:count],
    )
    return GrownTree(nodes, count, growth.order, waiting, gain, meeting, bounds)


@compiled
def _longer(values: Any, room: Int) -> Any:
    """The values with zeros behind, `room` numbers in all."""
    found = np.zeros(room, values.dtype)
    found[: values.shape[0]] = values
    return found


@compiled
def _no_boxes() -> Ranks:
    return np.empty(0, np.int32)


@compiled
def preorder(dim: Ints, at: Ints, child: Ints, splits: Int) -> tuple[Ints, Ints, Ints, Ints]:
    """The tree after its first `splits`, in preorder. By node: dimension (-1: leaf), rank, upper child, parent."""
    size = 2 * splits + 1
    dims = np.full(size, -1, np.int64)
    ranks = np.zeros(size, np.int64)
    right = np.zeros(size, np.int64)
    parent = np.zeros(size, np.int64)
    stack = np.empty((size + 1, 2), np.int64)  # a node of the growth, and where its parent stands if it is the upper
    stack[0, 0], stack[0, 1] = 0, -1
    top, above = 1, np.int64(0)
    for here in range(size):
        top -= 1
        node = stack[top, 0]
        if stack[top, 1] >= 0:
            above = stack[top, 1]
            right[above] = here
        parent[here] = above
        first = child[node]
        if 0 < first < 2 * splits:
            dims[here], ranks[here] = dim[node], at[node]
            stack[top, 0], stack[top, 1] = first + 1, here
            stack[top + 1, 0], stack[top + 1, 1] = first, -1
            top += 2
            above = np.int64(here)
    return dims, ranks, right, parent

"""Growing a decision tree over the event space, the split that saves most deliveries first.

Every coordinate is first a rank: the number of candidate cuts at or below it. One pass over the events and boxes of a
node counts what both sides of every cut would deliver (`cuts`). A tree can be grown further at any time, and is
then what it would be if it had been grown so far at once.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.learning.cuts import MAX_BINS, Ranks, best_of, can_wait, met_by


class GrownTree(NamedTuple):
    """A tree as far as it is grown, and what it takes to go on.

    Node 0 is the root, children are neighbours, and the children of the k-th split are nodes 2k + 1 and 2k + 2: the
    tree after fewer splits is a beginning of the arrays.
    """

    dim: Ints
    """By node; -1 for a leaf."""
    at: Ints
    """The rank of its cut."""
    child: Ints
    """The first, 0 for a leaf."""
    cost: Floats
    depth: Ints
    low: Ints
    high: Ints
    begin: Ints
    """Where its events are in `order`."""
    end: Ints
    looked: int
    """At so many nodes: what they cost and which cut is best for them is known."""
    order: Ranks
    waiting: Ints
    """A heap of leaves that are worth a cut: node, dimension, rank."""
    gain: Floats
    """Of these, negative."""
    boxes: Ranks
    """Those that meet them, one leaf after the other."""
    bounds: Ints


def root_alone(events: int, cuts: Ints) -> GrownTree:
    """The root alone. `cuts[d]` is how many cuts dimension d has."""
    zero = np.zeros(1, np.int64)
    return GrownTree(
        dim=np.array([-1]),
        at=zero,
        child=zero,
        cost=np.zeros(1),
        depth=zero,
        low=np.zeros((1, len(cuts)), np.int64),
        high=cuts.astype(np.int64)[None, :],
        begin=zero,
        end=np.array([events]),
        looked=0,
        order=np.arange(events, dtype=np.int32),
        waiting=np.zeros((0, 3), np.int64),
        gain=np.zeros(0),
        boxes=np.zeros(0, np.int32),
        bounds=zero,
    )


@compiled
def grow(
    begun: GrownTree,
    ranks: Ranks,
    weight: Floats,
    first: Ranks,
    last: Ranks,
    group: Ranks,
    bits: Int,
    splits: Int,
    share: float,
    leaves: Int,
) -> GrownTree:
    """At most so many splits, those made before among them, none below `bits`.

    `ranks[d, event]`, `first[d, box]` and `last[d, box]` are ranks. With `leaves`, the number that the tree is meant to
    have, nodes that `can_wait` are cut for what they will cost in the end, the others for what they cost now; so are
    all nodes where it is 0. Which node is next is in any case decided by what its cut saves.
    """
    dims = ranks.shape[0]
    count, looked = begun.dim.shape[0], begun.looked
    room = max(2 * splits + 1, count)
    dim, at, child = _longer(begun.dim, room), _longer(begun.at, room), _longer(begun.child, room)
    dim[count:] = -1
    cost, depth = _longer(begun.cost, room), _longer(begun.depth, room)
    low, high = np.zeros((room, dims), np.int64), np.zeros((room, dims), np.int64)
    low[:count], high[:count] = begun.low, begun.high
    begin, end = _longer(begun.begin, room), _longer(begun.end, room)
    order = begun.order.copy()
    spare = np.empty_like(order)
    none = np.empty(0, np.int32)
    boxes = [none for _ in range(count)]
    if not looked:
        boxes[0] = np.arange(first.shape[1]).astype(np.int32)
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0))]
    heap.pop()
    for i in range(begun.gain.shape[0]):
        node, d, k = begun.waiting[i]
        heap.append((begun.gain[i], node, d, k))
        boxes[node] = begun.boxes[begun.bounds[i] : begun.bounds[i + 1]].copy()
    groups = np.int64(group.max()) + 1 if group.shape[0] else np.int64(0)
    least = np.zeros(groups, np.int32)
    most = np.zeros(groups, np.int32)
    seen = np.full(groups, -1, np.int64)
    tick = np.zeros(1, np.int64)
    weights = np.empty(dims * MAX_BINS)
    bins, shift, offset = np.empty(dims, np.int64), np.empty(dims, np.int64), np.arange(dims) * MAX_BINS
    while True:
        while looked < count:
            new = looked
            looked += 1
            mine = order[begin[new] : end[new]]
            cost[new] = weight[mine].sum() * met_by(group, boxes[new], seen, tick, share)
            gain, d, k = 0.0, np.int64(-1), np.int64(0)
            if depth[new] < bits and cost[new] > 0.0:
                _weigh(ranks, weight, mine, low[new], high[new], bins, shift, weights)
                gain, d, k = best_of(
                    weights,
                    offset,
                    bins,
                    shift,
                    low[new],
                    high[new],
                    boxes[new],
                    first,
                    last,
                    group,
                    least,
                    most,
                    seen,
                    tick,
                    share,
                    can_wait(cost[new], cost[0], leaves, bits - depth[new]),
                )
            if gain > 0.0:
                heapq.heappush(heap, (-gain, np.int64(new), d, k))
            else:
                boxes[new] = none
        if count // 2 >= splits or len(heap) == 0:
            break
        _, node, d, k = heapq.heappop(heap)
        dim[node], at[node], child[node] = d, k, count
        middle = _part(ranks[d], k, order, spare, begin[node], end[node])
        for new in range(count, count + 2):
            depth[new] = depth[node] + 1
            low[new], high[new] = low[node], high[node]
            begin[new], end[new] = begin[node], end[node]
        high[count, d], low[count + 1, d] = k, k + 1
        end[count] = begin[count + 1] = middle
        boxes.append(boxes[node][first[d][boxes[node]] <= k])
        boxes.append(boxes[node][last[d][boxes[node]] > k])
        boxes[node] = none
        count += 2
    waiting = np.empty((len(heap), 3), np.int64)
    gains = np.empty(len(heap))
    bounds = np.zeros(len(heap) + 1, np.int64)
    for i in range(len(heap)):
        gains[i], waiting[i, 0], waiting[i, 1], waiting[i, 2] = heap[i]
        bounds[i + 1] = bounds[i] + boxes[waiting[i, 0]].shape[0]
    left = np.empty(bounds[-1], np.int32)
    for i in range(len(heap)):
        left[bounds[i] : bounds[i + 1]] = boxes[waiting[i, 0]]
    return GrownTree(
        dim[:count],
        at[:count],
        child[:count],
        cost[:count],
        depth[:count],
        low[:count],
        high[:count],
        begin[:count],
        end[:count],
        looked,
        order,
        waiting,
        gains,
        left,
        bounds,
    )


@compiled
def _longer(values: Any, room: Int) -> Any:
    """With zeros behind."""
    found = np.zeros(room, values.dtype)
    found[: values.shape[0]] = values
    return found


@compiled
def _part(rank: Ranks, k: Int, order: Ranks, spare: Ranks, begin: Int, end: Int) -> Int:
    """Events of rank k and below first; where the others begin."""
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
def _weigh(
    ranks: Ranks, weight: Floats, events: Ranks, low: Ints, high: Ints, bins: Ints, shift: Ints, weights: Floats
) -> None:
    """The weight of a node's events in the bins of every dimension, `MAX_BINS` places for each."""
    for d in range(ranks.shape[0]):
        span, by = high[d] - low[d], 0
        while span >> by >= MAX_BINS:
            by += 1
        bins[d], shift[d] = (span >> by) + 1 if span else 0, by
        mine = weights[d * MAX_BINS : d * MAX_BINS + bins[d]]
        mine[:] = 0.0
        if span:
            for event in events:
                mine[(ranks[d, event] - low[d]) >> by] += weight[event]


@compiled
def preorder(dim: Ints, at: Ints, child: Ints, splits: Int) -> tuple[Ints, Ints, Ints, Ints]:
    """The tree after so many splits, its nodes in preorder: dimension (-1: leaf), rank, upper child, parent."""
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

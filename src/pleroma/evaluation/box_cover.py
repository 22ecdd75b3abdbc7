"""`kernels.cover` for a single box, several times as fast: cutting a cell changes its share along one axis only.

Every node keeps the share of its extent that the box has along each axis, and what both halves would have, from when
it was found that both are needed. The products are those of the other kernel, factor by factor, and so are the covers.
"""

from __future__ import annotations

import heapq

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.index.cover import MAX_REFINED_CELLS, NEARLY_FULL
from pleroma.index.grid_kernels import chosen, descend


@compiled
def _share(prefix: Int, room: Int, low: Int, high: Int) -> float:
    """Of a stretch of cells, how much lies between `low` and `high`."""
    first = prefix << room
    last = first + (np.int64(1) << room) - 1
    a, b = max(first, low), min(last, high)
    if a > b:
        return 0.0
    return (b - a + 1) / (last - first + 1) if a > first or b < last else 1.0


@compiled
def _fill(shares: Floats) -> float:
    found = 1.0
    for share in shares:
        found *= share
    return found if found == 1.0 else min(found, NEARLY_FULL)


@compiled
def cover_of_box(order: Ints, used: Ints, bits: Ints, low: Ints, high: Ints, max_members: int) -> Ints:
    """Rows (high word, low word) of dz codes with their leading 1, at the full length of the order."""
    axes, length = bits.shape[0], order.shape[0]
    depth_at, low_at, child_at = axes, axes + 2, axes + 3
    nodes = np.zeros((64, axes + 4), np.int64)
    shares = np.empty((64, axes + 2), np.float64)  # by axis, and along the one that is cut next: of either half
    for j in range(axes):
        shares[0, j] = _share(0, bits[j], low[j], high[j])
    fill = _fill(shares[0, :axes])
    if fill == 0.0:
        return np.zeros((0, 2), np.int64)
    halves = 2.0 ** -np.arange(length + 1).astype(np.float64)
    nodes[0, low_at] = 1
    count = leaves = 1
    enough = max(max_members, min(4 * max_members, MAX_REFINED_CELLS))
    heap = [(0.0, np.int64(0))]
    heap.pop()
    begin = 0
    while True:
        for node in range(begin, count):
            depth = nodes[node, depth_at]
            fill = _fill(shares[node, :axes])
            while fill < 1.0 and depth < length:
                j = order[depth]
                room = bits[j] - used[depth + 1, j]
                left = _share(nodes[node, j] << 1, room, low[j], high[j])
                right = _share(nodes[node, j] << 1 | 1, room, low[j], high[j])
                if left > 0.0 and right > 0.0:
                    shares[node, axes], shares[node, axes + 1] = left, right
                    heapq.heappush(heap, (-(1.0 - fill) * halves[depth], np.int64(node)))
                    break
                descend(nodes, node, axes, j, np.int64(right > 0.0))
                shares[node, j] = max(left, right)
                fill = _fill(shares[node, :axes])
                depth += 1
        if len(heap) == 0 or leaves >= enough:
            break
        _, cut = heapq.heappop(heap)
        if count + 2 > nodes.shape[0]:
            more, further = np.zeros((2 * count, axes + 4), np.int64), np.empty((2 * count, axes + 2), np.float64)
            more[:count], further[:count] = nodes[:count], shares[:count]
            nodes, shares = more, further
        nodes[cut, child_at] = count
        j = order[nodes[cut, depth_at]]
        begin = count
        for half in range(2):
            nodes[count] = nodes[cut]
            nodes[count, child_at] = 0
            shares[count] = shares[cut]
            shares[count, j] = shares[cut, axes + half]
            descend(nodes, count, axes, j, np.int64(half))
            count += 1
        leaves += 1
    return chosen(nodes[:count], axes, leaves, max_members)

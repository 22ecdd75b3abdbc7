"""Compiled loops over arrays. Each has a slow and obvious twin in the tests."""

from __future__ import annotations

import heapq

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Words
from pleroma.index.cover import MAX_REFINED_CELLS, NEARLY_FULL

SPREAD_BITS = 8
"""A cell number is spread over its places in the code by tables of this many bits at a time."""

EVENTS_PER_BLOCK = 512

HALF_CODE_BITS = 56
"""`cover` returns a code of up to 112 bits in two words of this many, clear of the sign."""


@compiled
def encode(
    points: Floats,
    dims: Ints,
    low: Floats,
    scale: Floats,
    top: Ints,
    listed: Ints,
    boundaries: Floats,
    first_table: Ints,
    tables: Words,
    out: Words,
) -> bool:
    """The codes of a batch of points, one left-aligned word each; False if a coordinate is not finite.

    Axis j reads column `dims[j]`. Its boundaries are `boundaries[listed[j]:listed[j + 1]]`, none for a regular axis;
    its cell number is spread by `tables[first_table[j]]` and those that follow, low bits first. Blocks small enough
    for the cache are taken axis by axis, so that what an axis is like is decided once per block.
    """
    sane = True
    cells = np.empty(EVENTS_PER_BLOCK, np.int64)
    for start in range(0, points.shape[0], EVENTS_PER_BLOCK):
        size = min(EVENTS_PER_BLOCK, points.shape[0] - start)
        out[start : start + size] = 0
        for j in range(dims.shape[0]):
            d, begin, end = dims[j], listed[j], listed[j + 1]
            if begin == end:
                origin, factor, last = low[j], scale[j], np.float64(top[j])
                total = 0.0
                for i in range(size):
                    x = points[start + i, d]
                    total += x - x
                    shifted = (x - origin) * factor
                    shifted = shifted if shifted > 0.0 else 0.0
                    cells[i] = np.int64(shifted if shifted < last else last)
                sane &= total == 0.0
            else:
                for i in range(size):
                    x = points[start + i, d]
                    sane &= x - x == 0.0
                    a, b = begin, end
                    while a < b:
                        middle = (a + b) >> 1
                        if boundaries[middle] <= x:
                            a = middle + 1
                        else:
                            b = middle
                    cells[i] = a - begin
            for t in range(first_table[j], first_table[j + 1]):
                shift = SPREAD_BITS * (t - first_table[j])
                for i in range(size):
                    out[start + i] |= tables[t, cells[i] >> shift & 255]
    return sane


@compiled
def _overlap(prefix: Ints, depth: int, used: Ints, bits: Ints, low: Ints, high: Ints) -> float:
    """How much of a node the boxes fill, at most: 0 when none meets it, exactly 1 only when one holds all of it."""
    total = 0.0
    for box in range(low.shape[0]):
        share = 1.0
        for j in range(bits.shape[0]):
            room = bits[j] - used[depth, j]
            first = prefix[j] << room
            last = first + (np.int64(1) << room) - 1
            a = max(first, low[box, j])
            b = min(last, high[box, j])
            if a > b:
                share = 0.0
                break
            if a > first or b < last:
                share *= (b - a + 1) / (last - first + 1)
        if share == 1.0:
            return 1.0
        total += share
    return min(total, NEARLY_FULL)


@compiled
def _grown(array: Ints) -> Ints:
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@compiled
def descend(nodes: Ints, node: Int, axes: Int, j: Int, bit: Int) -> None:
    """Move a node to one of its halves, cut along axis j."""
    nodes[node, j] = nodes[node, j] << 1 | bit
    nodes[node, axes] += 1
    carry = nodes[node, axes + 2] >> (HALF_CODE_BITS - 1) & 1
    nodes[node, axes + 1] = nodes[node, axes + 1] << 1 | carry
    nodes[node, axes + 2] = (nodes[node, axes + 2] << 1 | bit) & ((1 << HALF_CODE_BITS) - 1)


@compiled
def cover(order: Ints, used: Ints, bits: Ints, low: Ints, high: Ints, max_length: int, max_members: int) -> Ints:
    """Cells enclosing a union of boxes (given as inclusive cell ranges), with as little volume as the limits allow.

    `pleroma.index.cover` says how, and does the same. Returns rows (high word, low word) of dz codes with their
    leading 1.
    """
    axes = bits.shape[0]
    # a node: the dimension prefixes, its depth, the two words of its code, and its first child (0: none)
    depth_at, low_at, child_at = axes, axes + 2, axes + 3
    nodes = np.zeros((64, axes + 4), np.int64)
    nodes[0, low_at] = 1
    count = 1
    leaves = 1
    heap = [(0.0, np.int64(0))]
    heap.pop()
    fill = _overlap(nodes[0, :axes], 0, used, bits, low, high)
    if fill == 0.0:
        return np.zeros((0, 2), np.int64)
    enough = max(max_members, min(4 * max_members, MAX_REFINED_CELLS))
    pending = [(np.int64(0), fill)]
    child = np.zeros(axes, np.int64)
    while True:
        while len(pending) > 0:  # pull down, then queue what can still be improved
            node, fill = pending.pop()
            depth = nodes[node, depth_at]
            while fill < 1.0 and depth < max_length:
                j = order[depth]
                child[:] = nodes[node, :axes]
                child[j] <<= 1
                left = _overlap(child, depth + 1, used, bits, low, high)
                child[j] |= 1
                right = _overlap(child, depth + 1, used, bits, low, high)
                if left > 0.0 and right > 0.0:
                    heapq.heappush(heap, (-(1.0 - fill) * 2.0**-depth, node))
                    break
                fill = max(left, right)
                descend(nodes, node, axes, j, np.int64(right > 0.0))
                depth += 1
        if len(heap) == 0 or leaves >= enough:
            break
        _, node = heapq.heappop(heap)
        if count + 2 > nodes.shape[0]:
            nodes = _grown(nodes)
        nodes[node, child_at] = count
        for half in range(2):
            nodes[count] = nodes[node]
            nodes[count, child_at] = 0
            descend(nodes, count, axes, order[nodes[node, depth_at]], np.int64(half))
            fill = _overlap(nodes[count, :axes], nodes[count, depth_at], used, bits, low, high)
            pending.append((np.int64(count), fill))
            count += 1
        leaves += 1
    return chosen(nodes[:count], axes, leaves, max_members)


@compiled
def chosen(nodes: Ints, axes: Int, leaves: int, max_members: int) -> Ints:
    """The codes of the leaves, or of the fewest nodes around them where there are too many leaves."""
    depth_at, high_at, low_at, child_at = axes, axes + 1, axes + 2, axes + 3
    if leaves <= max_members:
        kept = np.flatnonzero(nodes[:, child_at] == 0)
    else:
        kept = fewest(2.0 ** -nodes[:, depth_at].astype(np.float64), nodes[:, child_at], max_members)
    return nodes[kept, high_at : low_at + 1]


@compiled
def fewest(size: Floats, child: Ints, most: int) -> Ints:
    """What `pleroma.index.cover.fewest` finds."""
    count = size.shape[0]
    room = np.ones(count, np.int64)
    for node in range(count - 1, -1, -1):
        if child[node]:
            room[node] = min(room[child[node]] + room[child[node] + 1], most)
    # what a node has for 1, 2, ... cells stands from `first` on: most nodes have room for a few only
    first = np.cumsum(room) - room - 1
    volume = np.full(room.sum(), np.inf)
    share = np.zeros(volume.shape[0], np.int64)
    for node in range(count - 1, -1, -1):
        mine = first[node]
        volume[mine + 1] = size[node]
        a = child[node]
        if a == 0:
            continue
        left = volume[first[a] + 1 : first[a] + 1 + room[a]]
        right = volume[first[a + 1] + 1 : first[a + 1] + 1 + room[a + 1]]
        best, shares = volume[mine + 1 : mine + 1 + room[node]], share[mine + 1 : mine + 1 + room[node]]
        for i in range(min(left.shape[0], most - 1)):
            size_left = left[i]
            for k in range(min(right.shape[0], most - 1 - i)):  # without a branch, so that several go at a time
                both = size_left + right[k]
                better = both < best[i + k + 1]
                best[i + k + 1] = both if better else best[i + k + 1]
                shares[i + k + 1] = i + 1 if better else shares[i + k + 1]
    chosen = np.empty(most, np.int64)
    found = 0
    stack = [(np.int64(0), np.int64(most))]
    while len(stack) > 0:
        top, part = stack.pop()
        if part == 1:
            chosen[found] = top
            found += 1
        else:
            stack.append((child[top], share[first[top] + part]))
            stack.append((child[top] + 1, part - share[first[top] + part]))
    return chosen[:found]

"""Covering more with less, compiled: `pleroma.index.coarsening.fewest` over arrays, and `DzSet.coarsen` over rows.

The volumes of a search for a cover are floats. A region has to be coarsened exactly, and its volumes, whole numbers of
up to 113 bits, take two words each: that is why there are two passes from the back, `fewest` and `_exact_shares`.
"""

from __future__ import annotations

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Words
from pleroma.index.dz_rows import DzRows, joined

_LENGTH = np.uint64(0xFFFF)
_ONE = np.uint64(1)


@compiled
def fewest(size: Floats, child: Ints, max_cells: int) -> Ints:
    """What `pleroma.index.coarsening.fewest` finds, in the same order."""
    room = _rooms(child, max_cells)
    first = _firsts(room)
    volume = np.full(room.sum(), np.inf)
    share = np.zeros(volume.shape[0], np.int64)
    for node in range(child.shape[0] - 1, -1, -1):
        mine = first[node]
        volume[mine] = size[node]
        a = child[node]
        if a == 0:
            continue
        left = volume[first[a] : first[a] + room[a]]
        right = volume[first[a + 1] : first[a + 1] + room[a + 1]]
        best, shares = volume[mine : mine + room[node]], share[mine : mine + room[node]]
        for i in range(min(left.shape[0], max_cells - 1)):
            size_left = left[i]
            for k in range(min(right.shape[0], max_cells - 1 - i)):  # without a branch, so that several go at a time
                both = size_left + right[k]
                better = both < best[i + k + 1]
                best[i + k + 1] = both if better else best[i + k + 1]
                shares[i + k + 1] = i + 1 if better else shares[i + k + 1]
    return _picked(child, share, first, max_cells)


@compiled
def coarsened(rows: DzRows, max_members: int) -> DzRows:
    """What `DzSet.coarsen` finds, of the sorted members of a region that has more of them."""
    length, child, source = _joins(rows)
    first = _firsts(_rooms(child, max_members))
    picked = _picked(child, _exact_shares(length, child, first, max_members), first, max_members)
    found = np.empty((picked.shape[0], 2), np.uint64)
    for i in range(picked.shape[0]):
        leaf = picked[i]
        while child[leaf]:  # a cell begins with the first member in it
            leaf = child[leaf]
        found[i] = _truncated(rows[source[leaf] // 2], length[picked[i]])
    return found[: joined(found, 0, found.shape[0])].copy()


@compiled
def _rooms(child: Ints, max_cells: int) -> Ints:
    """By node, how many cells it can be shared out to: its leaves, and at most all that there may be."""
    room = np.ones(child.shape[0], np.int64)
    for node in range(child.shape[0] - 1, -1, -1):
        if child[node]:
            room[node] = min(room[child[node]] + room[child[node] + 1], max_cells)
    return room


@compiled
def _firsts(room: Ints) -> Ints:
    """Where what a node has for 1, 2, ... cells begins: most nodes have room for a few only."""
    return np.cumsum(room) - room


@compiled
def _picked(child: Ints, share: Ints, first: Ints, max_cells: int) -> Ints:
    """The nodes to keep, from left to right: of k cells of a node, its lower half has `share[first[node] + k - 1]`."""
    found = np.empty(max_cells, np.int64)
    count = 0
    stack = [(np.int64(0), np.int64(max_cells))]
    while len(stack) > 0:
        node, k = stack.pop()
        if k == 1:
            found[count] = node
            count += 1
        else:
            lower = share[first[node] + k - 1]
            stack.append((child[node] + 1, k - lower))
            stack.append((child[node], lower))
    return found[:count]


@compiled
def _joins(rows: DzRows) -> tuple[Ints, Ints, Ints]:
    """The binary tree whose leaves are these dz, as `fewest` takes it: by node its length, child and source.

    Leaf i has source 2 i, and the cell that joins the leaves before and behind has 2 i + 1; the less two neighbours
    share, the higher the cell that joins them.
    """
    leaves = rows.shape[0]
    nodes = 2 * leaves - 1
    length = np.empty(nodes, np.int64)
    for i in range(leaves):
        length[2 * i] = np.int64(rows[i, 1] & _LENGTH)
        if i:
            length[2 * i - 1] = shared_bits(rows[i - 1], rows[i])
    lower, upper = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    path = np.empty(leaves, np.int64)  # the cells that end at the present leaf or later
    top = root = 0
    for i in range(leaves):
        root = 2 * i
        here = length[2 * i + 1] if i + 1 < leaves else -1
        while top and length[path[top - 1]] > here:
            top -= 1
            upper[path[top]] = root
            root = path[top]
        if i + 1 < leaves:
            lower[2 * i + 1] = root
            path[top] = 2 * i + 1
            top += 1
    child, source = np.zeros(nodes, np.int64), np.empty(nodes, np.int64)
    source[0] = root
    count = 1
    for node in range(nodes):
        if lower[source[node]] >= 0:
            child[node] = count
            source[count], source[count + 1] = lower[source[node]], upper[source[node]]
            count += 2
    return length[source], child, source


@compiled
def shared_bits(a: Words, b: Words) -> int:
    """The length of the longest dz that covers two, of which none covers the other."""
    length = 0
    word = a[0] ^ b[0]
    if word == np.uint64(0):
        length = 64
        word = a[1] ^ b[1]
    while word >> np.uint64(63) == np.uint64(0):
        word <<= _ONE
        length += 1
    return length


@compiled
def _exact_shares(length: Ints, child: Ints, first: Ints, max_cells: int) -> Ints:
    """The pass of `fewest` with volumes as whole atoms, in two words each."""
    total = first[-1] + 1  # the last node is a leaf
    high, low = np.full(total, ~np.uint64(0)), np.full(total, ~np.uint64(0))
    share = np.zeros(total, np.int64)
    for node in range(child.shape[0] - 1, -1, -1):
        mine = first[node]
        atoms = np.uint64(112 - length[node])
        high[mine] = _ONE << (atoms - np.uint64(64)) if atoms >= np.uint64(64) else np.uint64(0)
        low[mine] = _ONE << atoms if atoms < np.uint64(64) else np.uint64(0)
        a = child[node]
        if a == 0:
            continue
        lower_end = first[a + 1]
        upper_end = first[a + 2] if a + 2 < child.shape[0] else total
        for one in range(first[a], min(lower_end, first[a] + max_cells - 1)):
            i = one - first[a]
            for other in range(lower_end, min(upper_end, lower_end + max_cells - 1 - i)):
                k = mine + i + other - lower_end + 1
                sum_low = low[one] + low[other]
                sum_high = high[one] + high[other] + np.uint64(sum_low < low[one])
                if sum_high < high[k] or (sum_high == high[k] and sum_low < low[k]):
                    high[k], low[k], share[k] = sum_high, sum_low, i + 1
    return share


@compiled
def _truncated(row: Words, length: int) -> Words:
    """The cell of so many bits around a dz."""
    found = np.empty(2, np.uint64)
    bits = np.uint64(length)
    if length <= 64:
        away = np.uint64(64) - bits
        found[0] = row[0] >> away << away if length else np.uint64(0)
        found[1] = bits
    else:
        away = np.uint64(128) - bits
        found[0] = row[0]
        found[1] = row[1] >> away << away | bits
    return found

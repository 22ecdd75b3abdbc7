"""Enclosing boxes with cells, compiled: the search of `pleroma.index.cover`, to the same members.

A node keeps, for each box that meets it, the share of its extent that the box has along each axis. Cutting a node
changes these shares along one axis only, and a box that a node does not meet is forgotten below it; so a search looks
at little more than what changes. The products of shares are taken factor by factor as in the plain form, hence both
forms cut the same nodes.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints
from pleroma.index.coarsening_kernels import fewest
from pleroma.index.cover import MAX_REFINED_CELLS, NEARLY_FULL

HALF_CODE_BITS = 56
"""`cover` returns a code of up to 112 bits in two words of this many, clear of the sign."""

DEPTH, HIGH, LOW, CHILD, FIRST, END, FIELDS = 0, 1, 2, 3, 4, 5, 6
"""What a node has in front of its prefix on each axis: its depth, the two words of its code, its first child (0: none),
and where the rows of the boxes that meet it begin and end."""

LOWER, UPPER, BOX, AXES = 0, 1, 2, 3
"""What a box has in front of its shares of a node along each axis: its shares of both halves, once they were
needed, and its number."""


class BitOrder(NamedTuple):
    """How a grid's axes take turns: `order` has the axis that gives each bit, `bits` how many each axis gives in all.

    `used` has by depth the bits that each axis has given so far, `volume` the share of the space that a cell has.
    """

    order: Ints
    used: Ints
    bits: Ints
    volume: Floats


class Boxes(NamedTuple):
    """The first and the last cell on each axis, both included."""

    low: Ints
    high: Ints


@compiled
def cover(grid: BitOrder, boxes: Boxes, max_length: int, max_members: int) -> Ints:
    """Cells that enclose a union of boxes; rows (high word, low word) of dz codes with their leading 1."""
    enough = max(max_members, min(4 * max_members, MAX_REFINED_CELLS))
    nodes, shares = _root(grid, boxes, min(2 * enough, 2 * MAX_REFINED_CELLS))
    if nodes[0, END] == 0:
        return np.zeros((0, 2), np.int64)
    heap = [(0.0, np.int64(0))]
    heap.pop()
    begin: Int = np.int64(0)
    count: Int = np.int64(1)
    while True:
        count = _refine(grid, boxes, nodes, shares, heap, begin, count, max_length, enough)
        if len(heap) == 0 or count >= 2 * enough - 1:
            break
        begin = count
        nodes, shares = _larger(nodes), _larger(shares)
    return _chosen(nodes[:count], grid.volume, max_members)


@compiled
def _root(grid: BitOrder, boxes: Boxes, room: int) -> tuple[Ints, Floats]:
    """A search with the whole space for its only node, and room for more: nodes, and shares of the boxes in them."""
    axes = grid.bits.shape[0]
    nodes = np.empty((room + 1, FIELDS + axes), np.int64)
    shares = np.empty((room + 3 * boxes.low.shape[0], AXES + axes), np.float64)
    nodes[0] = 0
    nodes[0, LOW] = 1
    count = 0
    for box in range(boxes.low.shape[0]):
        met = True
        for j in range(axes):
            shares[count, AXES + j] = _share(0, grid.bits[j], boxes.low[box, j], boxes.high[box, j], grid.volume)
            met &= shares[count, AXES + j] > 0.0
        if met:
            shares[count, BOX] = box
            count += 1
    nodes[0, END] = count
    return nodes, shares


@compiled
def _refine(
    grid: BitOrder,
    boxes: Boxes,
    nodes: Ints,
    shares: Floats,
    heap: list[tuple[float, np.int64]],
    begin: Int,
    count: Int,
    max_length: int,
    enough: int,
) -> Int:
    """Pull down the nodes from `begin` on, cut the one with most waste, and so on; returns how many nodes there are.

    Stops where there are enough leaves, where cutting does not help any more, or where there is no room. It does not
    make room itself: numba would count references to the arrays in the loop if they could be replaced there.
    """
    order, used, bits, volume = grid
    low, high = boxes
    while True:
        for node in range(begin, count):
            first, end = nodes[node, FIRST], nodes[node, END]
            depth = nodes[node, DEPTH]
            fill = _fill(shares, first, end)
            while fill < 1.0 and depth < max_length:
                j = order[depth]
                room = bits[j] - used[depth + 1, j]
                prefix = nodes[node, FIELDS + j] << 1
                lower = upper = False
                for row in range(first, end):
                    box = np.int64(shares[row, BOX])
                    shares[row, LOWER] = _share(prefix, room, low[box, j], high[box, j], volume)
                    shares[row, UPPER] = _share(prefix | 1, room, low[box, j], high[box, j], volume)
                    lower |= shares[row, LOWER] > 0.0
                    upper |= shares[row, UPPER] > 0.0
                if lower and upper:
                    heapq.heappush(heap, (-(1.0 - fill) * volume[depth], np.int64(node)))
                    break
                _descend(nodes, node, j, np.int64(upper))
                for row in range(first, end):
                    shares[row, AXES + j] = shares[row, UPPER] if upper else shares[row, LOWER]
                fill = _fill(shares, first, end)
                depth += 1
        rows = nodes[count - 1, END] + 2 * nodes[0, END]
        full = count + 2 > nodes.shape[0] or rows > shares.shape[0]
        if full or len(heap) == 0 or count >= 2 * enough - 1:
            break
        _, cut = heapq.heappop(heap)
        _cut(nodes, shares, cut, count, order[nodes[cut, DEPTH]])
        begin = count
        count += 2
    return count


@compiled
def _share(prefix: Int, room: Int, low: Int, high: Int, volume: Floats) -> float:
    """Of the cells that have this prefix on an axis, the share from `low` to `high`."""
    first = prefix << room
    a, b = max(first, low), min(first + (np.int64(1) << room) - 1, high)
    return float(max(b - a + 1, np.int64(0)) * volume[room])


@compiled
def _fill(shares: Floats, first: Int, end: Int) -> float:
    """How much of a node its boxes fill, at most: exactly 1 only when one holds all of it."""
    total, full = 0.0, False
    for row in range(first, end):
        found = 1.0
        for j in range(AXES, shares.shape[1]):
            found *= shares[row, j]
        full |= found == 1.0
        total += found
    fill = min(total, NEARLY_FULL)
    if full:
        fill = 1.0
    return fill  # a single way out, with which numba need not count references to the array


@compiled
def _descend(nodes: Ints, node: Int, axis: Int, bit: Int) -> None:
    """Move a node to one of its halves, cut along an axis."""
    nodes[node, FIELDS + axis] = nodes[node, FIELDS + axis] << 1 | bit
    nodes[node, DEPTH] += 1
    carry = nodes[node, LOW] >> (HALF_CODE_BITS - 1) & 1
    nodes[node, HIGH] = nodes[node, HIGH] << 1 | carry
    nodes[node, LOW] = (nodes[node, LOW] << 1 | bit) & ((1 << HALF_CODE_BITS) - 1)


@compiled
def _cut(nodes: Ints, shares: Floats, cut: Int, at: Int, axis: Int) -> None:
    """The halves of a node along an axis become nodes `at` and `at + 1`, each with the boxes that meet it."""
    nodes[cut, CHILD] = at
    end = nodes[at - 1, END]
    for half in range(2):
        node = at + half
        for field in range(nodes.shape[1]):
            nodes[node, field] = nodes[cut, field]
        nodes[node, CHILD] = 0
        nodes[node, FIRST] = end
        _descend(nodes, node, axis, half)
        for row in range(nodes[cut, FIRST], nodes[cut, END]):
            if shares[row, LOWER + half] > 0.0:
                for j in range(BOX, shares.shape[1]):
                    shares[end, j] = shares[row, j]
                shares[end, AXES + axis] = shares[row, LOWER + half]
                end += 1
        nodes[node, END] = end


@compiled
def _larger(array: NDArray[Any]) -> NDArray[Any]:
    """A copy with room for as many rows again."""
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@compiled
def _chosen(nodes: Ints, volume: Floats, max_members: int) -> Ints:
    """The codes of the leaves, or of the fewest nodes around them where there are too many leaves."""
    if (nodes.shape[0] + 1) // 2 <= max_members:
        kept = np.flatnonzero(nodes[:, CHILD] == 0)
    else:
        kept = fewest(volume[nodes[:, DEPTH]], nodes[:, CHILD], max_members)
    return nodes[kept, HIGH : LOW + 1]

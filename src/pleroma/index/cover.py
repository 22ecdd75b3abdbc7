"""Enclosing boxes with cells, in plain Python: what `cover_kernels.cover` does, to the same members.

A sensor has no compiler, and loading one takes longer than a few covers do; a program that covers many filters has it
loaded. Every node is pulled down to the smallest cell that still holds its part of the boxes, which costs nothing. Of
all nodes that the boxes fill only partly, the one with the most waste is cut in two. That goes on until there are more
nodes than members are allowed; then the nodes that cover them all with the least waste are chosen exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.index.coarsening import fewest
from pleroma.index.dz import Dz

MAX_REFINED_CELLS = 1024
"""A cover is refined to four times the allowed members, but not beyond this many, before the best are kept."""
NEARLY_FULL = 0.999999
"""What a cell counts as filled, at most, while no single box holds all of it: boxes that overlap are added up."""

Box = Sequence[tuple[int, int]]
"""The first and the last cell on each axis."""


@dataclass(slots=True)
class _Node:
    prefix: list[int]
    code: int
    child: int = 0

    @property
    def depth(self) -> int:
        return self.code.bit_length() - 1

    def descend(self, axis: int, bit: int) -> None:
        self.prefix[axis] = self.prefix[axis] << 1 | bit
        self.code = self.code << 1 | bit


class Cover:
    """A search for one cover. `order` names the axis that gives each bit, `bits` how many bits each axis has in all."""

    def __init__(self, order: Sequence[int], bits: Sequence[int], boxes: Sequence[Box], max_length: int) -> None:
        self.order = order
        self.max_length = max_length
        left = list(bits)
        self.rooms = [tuple(left)]  # by depth: the bits of each axis that are still to come
        for axis in order:
            left[axis] -= 1
            self.rooms.append(tuple(left))
        room = self.rooms[max_length]  # what this length cannot tell apart belongs to the boxes
        self.boxes = [
            [(low >> r << r, high | (1 << r) - 1) for (low, high), r in zip(box, room, strict=True)] for box in boxes
        ]

    def cells(self, max_members: int | None) -> list[Dz]:
        nodes = [_Node([0] * len(self.rooms[0]), 1)]
        fill = self._fill(nodes[0].prefix, 0)
        if fill == 0.0:
            return []
        enough = None if max_members is None else max(max_members, min(4 * max_members, MAX_REFINED_CELLS))
        leaves = 1
        heap: list[tuple[float, int]] = []
        self._pull_down(nodes, 0, fill, heap)
        while heap and (enough is None or leaves < enough):
            _, number = heapq.heappop(heap)
            node = nodes[number]
            node.child = len(nodes)
            for half in (0, 1):
                child = _Node(list(node.prefix), node.code)
                child.descend(self.order[node.depth], half)
                nodes.append(child)
            for place in (node.child + 1, node.child):
                self._pull_down(nodes, place, self._fill(nodes[place].prefix, nodes[place].depth), heap)
            leaves += 1
        if max_members is None or leaves <= max_members:
            return [Dz(node.code) for node in nodes if not node.child]
        volumes = [2.0**-node.depth for node in nodes]
        return [Dz(nodes[number].code) for number in fewest(volumes, [node.child for node in nodes], max_members)]

    def _pull_down(self, nodes: list[_Node], number: int, fill: float, heap: list[tuple[float, int]]) -> None:
        """Move a node to the smallest cell that holds the same part of the boxes; queue it if cutting it can help."""
        node = nodes[number]
        while fill < 1.0 and node.depth < self.max_length:
            axis = self.order[node.depth]
            half = list(node.prefix)
            half[axis] <<= 1
            left = self._fill(half, node.depth + 1)
            half[axis] |= 1
            right = self._fill(half, node.depth + 1)
            if left > 0.0 and right > 0.0:
                heapq.heappush(heap, (-(1.0 - fill) * 2.0**-node.depth, number))
                return
            fill = max(left, right)
            node.descend(axis, int(right > 0.0))

    def _fill(self, prefix: list[int], depth: int) -> float:
        """How much of a cell the boxes fill, at most: 0 when none meets it, 1 only when one holds all of it."""
        total = 0.0
        for box in self.boxes:
            share = 1.0
            for (low, high), cell, room in zip(box, prefix, self.rooms[depth], strict=True):
                first = cell << room
                last = first + (1 << room) - 1
                a, b = max(first, low), min(last, high)
                if a > b:
                    share = 0.0
                    break
                if a > first or b < last:
                    share *= (b - a + 1) / (last - first + 1)
            if share == 1.0:
                return 1.0
            total += share
        return min(total, NEARLY_FULL)

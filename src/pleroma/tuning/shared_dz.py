"""All dz of many covers in one forest: who asks for each, how many events it holds, and the rules of any switch.

Every owner is a bit. A dz is met by those who ask for it or for one around it; where all owners behind a port fill both
halves of a dz, the port demands the whole. So one pass up and one pass down the forest count the rules of a switch for
all of its ports at once, and its nodes are only as many as there are different dz.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pleroma.index import DzSet
from pleroma.index.codes import Codes
from pleroma.index.dz import Dz
from pleroma.index.kernels import Ints, compiled
from pleroma.tuning.outcome import events_in

Masks = NDArray[np.uint64]
OWNERS = 64
"""A bit each."""


class SharedDz:
    """Cover i belongs to owner `owners[i]`, of which there are at most `OWNERS`."""

    def __init__(self, covers: Sequence[DzSet], owners: Sequence[int]) -> None:
        nodes: dict[Dz, int] = {}
        for owner, cover in zip(owners, covers, strict=True):
            for dz in cover:
                nodes[dz] = nodes.get(dz, 0) | 1 << owner
        by_length: dict[int, list[Dz]] = {}
        for dz in nodes:
            by_length.setdefault(dz.length, []).append(dz)
        for length in range(max(by_length, default=0), 0, -1):
            for dz in by_length.get(length, ()):
                above = Dz(dz >> 1)
                if above not in nodes and Dz(dz ^ 1) in nodes:  # both halves are there: the whole may be demanded
                    nodes[above] = 0
                    by_length.setdefault(length - 1, []).append(above)
        self.cells = sorted(nodes, key=lambda dz: (dz.start, dz.length))
        place = {dz: i for i, dz in enumerate(self.cells)}
        self.asked: Masks = np.array([nodes[dz] for dz in self.cells], np.uint64)
        self.half: Ints = np.array([place.get(Dz(dz << 1), -1) if dz.length < 112 else -1 for dz in self.cells])
        self.other: Ints = np.array([place.get(Dz(dz << 1 | 1), -1) if dz.length < 112 else -1 for dz in self.cells])
        self.above = _nearest(self.cells)

    def deliveries(self, codes: Codes) -> int:
        """Of each event, once to every owner that asks for a dz with it."""
        return int((_newly(self.asked, self.above) * events_in(codes, self.cells)).sum())

    def rules(self, ports: Ints) -> int:
        """On a switch that has owner i behind port `ports[i]`."""
        number = {port: i for i, port in enumerate(dict.fromkeys(ports.tolist()))}
        behind = np.array([1 << number[port] for port in ports.tolist()], np.uint64)
        return int(_rules(self.asked, behind, self.half, self.other, self.above))


def _nearest(cells: Sequence[Dz]) -> Ints:
    """The nearest cell around each of the sorted ones, or -1."""
    found = np.full(len(cells), -1, np.int64)
    path: list[int] = []
    for i, dz in enumerate(cells):
        while path and not cells[path[-1]].covers(dz):
            path.pop()
        if path:
            found[i] = path[-1]
        path.append(i)
    return found


@compiled
def _newly(asked: Masks, above: Ints) -> Ints:
    """By node: the owners that it reaches and that nothing around it does."""
    reached = asked.copy()
    found = np.zeros(asked.shape[0], np.int64)
    for i in range(asked.shape[0]):
        before = np.uint64(0)
        if above[i] >= 0:
            before = reached[above[i]]
        new = asked[i] & ~before
        reached[i] = asked[i] | before
        while new != 0:
            new &= new - np.uint64(1)
            found[i] += 1
    return found


@compiled
def _rules(asked: Masks, behind: Masks, half: Ints, other: Ints, above: Ints) -> int:
    size = asked.shape[0]
    demand = np.zeros(size, np.uint64)
    for i in range(size):
        for owner in range(behind.shape[0]):
            if asked[i] >> np.uint64(owner) & np.uint64(1):
                demand[i] |= behind[owner]
    # what is around a node counts for it too, before halves can be put together
    for i in range(size):
        if above[i] >= 0:
            demand[i] |= demand[above[i]]
    for i in range(size - 1, -1, -1):
        if half[i] >= 0 and other[i] >= 0:
            demand[i] |= demand[half[i]] & demand[other[i]]
    found = 0
    for i in range(size):
        if above[i] < 0:
            found += demand[i] != 0
        else:
            found += (demand[i] & ~demand[above[i]]) != 0
    return found

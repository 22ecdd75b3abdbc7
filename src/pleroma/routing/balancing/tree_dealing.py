"""Deals cells of dz out to trees, so that the busiest cable between switches carries least.

What each cell puts on each cable is known for each tree that it may get, so any deal is judged by adding. The heaviest
cells choose first; then single cells move, two cells swap, or all cells of one tree go to another tree together, for as
long as that relieves busy cables. A cell stays on the tree that it has if it gains too little elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.index.dz import Dz
from pleroma.index.dzset import DzSet
from pleroma.routing.balancing.cable_loads import CableLoads, Demanded, Sent, pair_loads, predict, slowness
from pleroma.routing.balancing.tree_candidates import candidate_trees
from pleroma.routing.family import Family
from pleroma.routing.topology import Link, Topology
from pleroma.routing.tree import Tree

MAX_DEALT_TREES = 8
NO_GAIN = 0.01
"""By less than this share, a deal is not better than another that moves fewer cells."""
BUSY_POWER_SQUARINGS = 5
"""Loads count by their 32nd power: almost only the busiest, and yet it pays to relieve another busy cable."""
CROSSING_WEIGHT, LATENCY_WEIGHT = 1e-4, 1e-7
"""Of two deals whose busiest cables are alike, that with fewer crossings is better, then that with less latency."""
MAX_SEARCH_ROUNDS = 200
UNKNOWN = -1
EVEN_PARTS = 1_000
"""Into so many parts the load of the busiest cable on any tree is divided, where loads are whole numbers."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """Families, one for each tree in use, and what the traffic will put on the cables."""

    families: tuple[Family, ...]
    loads: CableLoads


def deal(
    topology: Topology,
    traffic: Sequence[Sent],
    cells: Sequence[Dz],
    *,
    max_trees: int = MAX_DEALT_TREES,
    current: Iterable[Family] = (),
) -> Dealt:
    """Deal disjoint cells, in the order of the line, to at most so many trees; the families have just these cells.

    A cell prefers the tree that it has in `current`. Traffic outside of the cells travels on as `current` says. Cells
    without traffic go with the cell before them, so that families take turns no more often than they have to.
    """
    current = list(current)
    groups, outside = _grouped(traffic, cells)
    beside = predict(topology, [traffic[number] for number in outside], current)
    of_cells = [family for family in current if any(family.region.overlaps(cell) for cell in cells)]
    trees = list({t.links: t for t in [*(f.tree for f in of_cells), *candidate_trees(topology)]}.values())
    number = {tree.links: n for n, tree in enumerate(trees)}
    busy = [n for n, group in enumerate(groups) if group]
    demanded = Demanded(topology, traffic)
    lines = np.array([demanded.loads(tree, [groups[n] for n in busy]) for tree in trees]).swapaxes(0, 1)
    homes = [_home(cells[n], of_cells, number) for n in busy]
    chosen = _Dealing(topology, lines, beside.cables, max_trees).run(np.array(homes, np.int64))
    loads = beside.lines + lines[np.arange(len(busy)), chosen].sum(axis=0)
    owners = _spread(len(cells), busy, chosen.tolist(), _home(cells[0], of_cells, number))
    return Dealt(_families(cells, owners, trees), CableLoads(topology, loads))


def deal_evenly(topology: Topology, cells: Sequence[Dz], max_trees: int = MAX_DEALT_TREES) -> tuple[Family, ...]:
    """Deal cells of which no traffic is known yet: as if in each every host sent as much to every other host.

    A controller that reads its log again deals again, maybe on another machine: whole numbers are added and compared.
    """
    trees = candidate_trees(topology)
    cables = np.array([CableLoads(topology, pair_loads(topology, tree)).cables for tree in trees])
    parts: Ints = np.rint(cables * (EVEN_PARTS / (cables.max(initial=0.0) or 1.0))).astype(np.int64)
    load = np.zeros(len(topology.links), np.int64)
    chosen: list[int] = []
    for _ in cells:
        among = sorted(set(chosen)) if len(set(chosen)) == max_trees else range(len(trees))
        after = load + parts
        busiest, squares, crossings = after.max(axis=1, initial=0), (after**2).sum(axis=1), after.sum(axis=1)
        chosen.append(min(among, key=lambda t: (int(busiest[t]), int(squares[t]), int(crossings[t]), t)))
        load = after[chosen[-1]]
    return _families(cells, chosen, trees)


def _grouped(traffic: Sequence[Sent], cells: Sequence[Dz]) -> tuple[list[list[int]], list[int]]:
    """The numbers of the traffic in each cell, and of that in none."""
    starts = [cell.start for cell in cells]
    groups: list[list[int]] = [[] for _ in cells]
    outside: list[int] = []
    for number, sent in enumerate(traffic):
        place = bisect_right(starts, sent.dz.start) - 1
        (groups[place] if place >= 0 and cells[place].covers(sent.dz) else outside).append(number)
    return groups, outside


def _home(cell: Dz, current: Sequence[Family], number: Mapping[tuple[Link, ...], int]) -> int:
    """The number of the tree that most of a cell has now."""
    shares = [((family.region & DzSet([cell])).atoms, -number[family.tree.links]) for family in current]
    most = max(shares, default=(0, 0))
    return -most[1] if most[0] else UNKNOWN


def _spread(count: int, busy: Sequence[int], chosen: Sequence[int], otherwise: int) -> list[int]:
    """The number of the tree of every cell: those that are not busy have that of the last busy one before them."""
    if not busy:
        return [max(otherwise, 0)] * count
    return [chosen[max(bisect_right(busy, place) - 1, 0)] for place in range(count)]


def _families(cells: Sequence[Dz], owners: Sequence[int], trees: Sequence[Tree]) -> tuple[Family, ...]:
    regions: dict[int, list[Dz]] = {}
    for cell, owner in zip(cells, owners, strict=True):
        regions.setdefault(owner, []).append(cell)
    return tuple(Family(DzSet(region), trees[owner]) for owner, region in sorted(regions.items()))


class _Dealing:
    """A search for the number of each cell's tree. `cables[c, t]` is what cell c puts on the cables by tree t."""

    def __init__(self, topology: Topology, lines: Floats, beside: Floats, max_trees: int) -> None:
        self.cables: Floats = (lines[..., 0::2] + lines[..., 1::2]) * slowness(topology)
        self.beside = beside
        self.max_trees = max_trees
        latency = np.array([link.latency for link in topology.links])
        crossings, delays = self.cables.sum(axis=2), self.cables @ latency
        self.price: Floats = CROSSING_WEIGHT * _shares(crossings) + LATENCY_WEIGHT * _shares(delays)
        self.unit = float(self.cables.max(initial=0.0)) or 1.0
        self.each = np.arange(len(lines))

    def run(self, homes: Ints) -> Ints:
        """The best deal that was found from nothing, or from the trees that the cells have now."""
        if not len(homes):
            return homes
        best = self.improved(self.greedy())
        at_home = bool((homes != UNKNOWN).all()) and len(set(homes.tolist())) <= self.max_trees
        if at_home:
            best = min(self.improved(homes.copy()), best, key=self.cost)
        return self.returned(best, homes)

    def cost(self, chosen: Ints) -> float:
        return float(self.judge(self.load(chosen)) + self.price[self.each, chosen].sum())

    def load(self, chosen: Ints) -> Floats:
        return np.asarray(self.beside + self.cables[self.each, chosen].sum(axis=0), np.float64)

    def judge(self, loads: Floats) -> Floats:
        """How busy cables are, along the last axis: hardly more than the load of the busiest."""
        top = loads.max(axis=-1, keepdims=True, initial=0.0)
        powers = np.divide(loads, top, out=np.zeros_like(loads), where=top > 0)
        for _ in range(BUSY_POWER_SQUARINGS):
            powers *= powers
        return np.asarray(top[..., 0] * powers.sum(axis=-1) ** 0.5**BUSY_POWER_SQUARINGS / self.unit, np.float64)

    def greedy(self) -> Ints:
        """Heaviest cells first, each cell takes the tree that is best with those before it."""
        chosen = np.full(len(self.cables), UNKNOWN)
        load = self.beside.copy()
        for cell in self.by_weight():
            cost = self.judge(load + self.cables[cell]) + self.price[cell]
            chosen[cell] = _cheapest(cost, self.allowed(chosen, cell))
            load += self.cables[cell, chosen[cell]]
        return chosen

    def by_weight(self) -> list[int]:
        return [int(cell) for cell in np.argsort(-self.cables.sum(axis=2).min(axis=1), kind="stable")]

    def allowed(self, chosen: Ints, cell: int) -> Ints | None:
        """The trees that a cell may go to, if it may not go to any: those that other cells have."""
        others = np.unique(np.delete(chosen, cell))
        others = others[others != UNKNOWN]
        return others if len(others) >= self.max_trees else None

    def improved(self, chosen: Ints) -> Ints:
        for _ in range(MAX_SEARCH_ROUNDS):
            if not (self.move(chosen) or self.swap(chosen) or self.exchange(chosen)):
                break
        return chosen

    def move(self, chosen: Ints) -> bool:
        """Each cell in turn takes the tree that is best with all others."""
        moved = False
        for cell in self.by_weight():
            rest = self.load(chosen) - self.cables[cell, chosen[cell]]
            cost = self.judge(rest + self.cables[cell]) + self.price[cell]
            best = _cheapest(cost, self.allowed(chosen, cell))
            if _is_less(cost[best], cost[chosen[cell]]):
                chosen[cell] = best
                moved = True
        return moved

    def swap(self, chosen: Ints) -> bool:
        """The two cells exchange trees for which that is best."""
        alone = self.cables[self.each[:, None], chosen[None, :]]  # what each cell would put on each other's tree
        gain = alone - self.cables[self.each, chosen][:, None]
        price = self.price[self.each[:, None], chosen[None, :]] - self.price[self.each, chosen][:, None]
        cost = self.judge(self.load(chosen) + gain + gain.swapaxes(0, 1)) + price + price.T
        a, b = divmod(int(cost.argmin()), len(chosen))
        if not _is_less(cost[a, b], cost[0, 0]):
            return False
        chosen[[a, b]] = chosen[[b, a]]
        return True

    def exchange(self, chosen: Ints) -> bool:
        """All cells of one tree go to the one other tree for which that is best."""
        load, before = self.load(chosen), self.cost(chosen)
        best, step = before, (0, 0)
        for tree in np.unique(chosen).tolist():
            group = chosen == tree
            together = self.cables[group].sum(axis=0)
            price = self.price[group].sum(axis=0)
            rest = float(self.price[self.each, chosen].sum() - price[tree])
            cost = self.judge(load - together[tree] + together) + price + rest
            if _is_less(cost.min(), best):
                best, step = float(cost.min()), (tree, int(cost.argmin()))
        chosen[chosen == step[0]] = step[1]
        return best < before

    def returned(self, chosen: Ints, homes: Ints) -> Ints:
        """The deal with those cells back on the trees that they have now which gain nothing by leaving them."""
        most = self.cost(chosen) * (1 + NO_GAIN)
        for cell in reversed(self.by_weight()):
            back = chosen.copy()
            back[cell] = homes[cell]
            if homes[cell] != UNKNOWN and len(np.unique(back)) <= self.max_trees and self.cost(back) <= most:
                chosen = back
        return chosen


def _shares(values: Floats) -> Floats:
    return values / (values.max(initial=0.0) * len(values) or 1.0)


def _cheapest(cost: Floats, among: Ints | None) -> int:
    return int(cost.argmin()) if among is None else int(among[cost[among].argmin()])


def _is_less(cost: float, than: float) -> bool:
    """Not just by rounding."""
    return cost < than * (1 - 1e-9)

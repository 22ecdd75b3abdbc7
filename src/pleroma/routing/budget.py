"""Tables for switches that have room for fewer rules than are wanted: fewer, coarser rules that waste little.

The rules of a switch form a forest by covering. A subtree can be collapsed into one rule at its root that has all ports
of the subtree; this rule forwards more events and never fewer. Which subtrees collapse is decided for the whole table
at once. In small tables the choice is exact. In large ones each rule has a price, for which one pass from the leaves up
finds the best choice; the price is raised until the table nearly fits, and the rest of the choice is exact. The result
depends on the table alone: the order of requests does not matter, and rules that go later make it finer again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints
from pleroma.index.dz import ROOT, Dz
from pleroma.routing.family_spans import FamilySpans
from pleroma.routing.flow import Flow, FlowTable, Output

PRICE_ROUNDS = 60
"""Halvings of the interval in which the price of a rule is searched."""
MAX_EXACT_STEPS = 50_000_000
"""Steps that an exact choice may take: about a tenth of a second."""

FORCING_PRICE = 1e12
"""A price of a rule that no waste outweighs: every subtree collapses that may."""


@dataclass(frozen=True)
class Weights:
    """How much traffic a cell carries, by a sample of events, of which `starts` are the first atoms.

    A cell without any event of the sample weighs a little by its volume, so that such cells are not all alike.
    """

    starts: tuple[int, ...]
    _sorted: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sorted", np.sort(np.array([s * 2.0**-112 for s in self.starts])))

    @classmethod
    def of(cls, events: list[Dz]) -> Weights:
        return cls(tuple(dz.start for dz in events))

    def weigh(self, cells: list[Dz]) -> NDArray[np.float64]:
        first = np.searchsorted(self._sorted, [dz.start * 2.0**-112 for dz in cells])
        last = np.searchsorted(self._sorted, [dz.end * 2.0**-112 for dz in cells])
        return (last - first) / max(len(self._sorted), 1) + 1e-3 * _volumes(cells)


@dataclass(frozen=True, slots=True)
class Coarsening:
    """What a limit costs one switch: the rules wanted, the rules installed, and the traffic that is sent in vain.

    `extra` counts each needless port once: 0.5 means that half of all events (by weight) leave through one port too
    many.
    """

    wanted: int
    installed: int
    extra: float


def coarsen(
    table: FlowTable, limit: int, weights: Weights | None = None, families: FamilySpans | None = None
) -> tuple[FlowTable, Coarsening]:
    """The table with at most `limit` rules that forwards all that `table` does and least beyond it.

    A rule never spans two families: events of one would leave along the tree of the other. A limit that leaves no rule
    for each turn from one family to the next is exceeded.
    """
    if len(table) <= limit:
        return table.copy(), Coarsening(len(table), len(table), 0.0)
    forest = _Forest(table)
    weight = weights.weigh(forest.cells) if weights else _volumes(forest.cells)
    cost = forest.collapse_costs(weight)
    if families is not None and families.runs > 1:
        cost[[not families.is_within_one(cell) for cell in forest.cells]] = np.inf
        limit = max(limit, _priced(forest.parent, forest.real, cost, FORCING_PRICE)[0])
    collapsed = _choose(forest.parent, forest.real, cost, limit)
    flows = forest.flows(collapsed)
    return FlowTable(flows), Coarsening(len(table), len(flows), float(cost[collapsed].sum()))


class _Forest:
    """The rules as one tree in pre-order. Nodes where rules branch but that are no rules themselves are not `real`."""

    def __init__(self, table: FlowTable) -> None:
        flows = sorted(table, key=lambda flow: (flow.dz.start, flow.dz.length))
        self.cells: list[Dz] = [ROOT]
        parents: list[int] = [-1]
        self._flow: list[Flow | None] = [None]
        path = [0]
        for before, flow in zip([None, *flows], flows, strict=False):
            if before is not None:
                self._branch(path, parents, before.dz, flow.dz)
            while not self.cells[path[-1]].covers(flow.dz):
                path.pop()
            if self.cells[path[-1]] == flow.dz:
                self._flow[path[-1]] = flow
                continue
            path.append(self._node(flow.dz, flow, path[-1], parents))
        order = sorted(range(len(self.cells)), key=lambda i: (self.cells[i].start, self.cells[i].length))
        place = {old: new for new, old in enumerate(order)}
        self.cells = [self.cells[i] for i in order]
        self._flow = [self._flow[i] for i in order]
        self.parent: Ints = np.array([place.get(parents[i], -1) for i in order], np.int64)
        self.real: Ints = np.array([flow is not None for flow in self._flow], np.int64)
        self._ports, self._outputs = _port_sets(self._flow, self.parent)

    def _branch(self, path: list[int], parents: list[int], before: Dz, here: Dz) -> None:
        """Put a node where two neighbouring rules branch, if there is none, and hang the earlier rule below it."""
        shorter = min(before.length, here.length)
        a, b = before >> before.length - shorter, here >> here.length - shorter
        fork = Dz(a >> (a ^ b).bit_length())
        while len(path) > 1 and self.cells[path[-2]].length >= fork.length:
            path.pop()
        top = self.cells[path[-1]]
        if top.length > fork.length:
            below = path.pop()
            node = self._node(fork, None, parents[below], parents)
            parents[below] = node
            path.append(node)

    def _node(self, dz: Dz, flow: Flow | None, parent: int, parents: list[int]) -> int:
        self.cells.append(dz)
        self._flow.append(flow)
        parents.append(parent)
        return len(self.cells) - 1

    def collapse_costs(self, weight: Floats) -> Floats:
        """For every node: the traffic times the needless ports, if the subtree at the node became one rule."""
        size = len(self.cells)
        own, union, spent = weight.copy(), list(self._ports), np.zeros(size)
        for node in range(size - 1, 0, -1):
            own[self.parent[node]] -= weight[node]
            union[self.parent[node]] |= union[node]
        for node in range(size - 1, -1, -1):
            spent[node] += max(own[node], 0.0) * self._ports[node].bit_count()
            if node:
                spent[self.parent[node]] += spent[node]
        self._union = union
        return np.array([max(union[i].bit_count() * weight[i] - spent[i], 0.0) for i in range(size)])

    def flows(self, collapsed: Ints) -> list[Flow]:
        tops = set(collapsed.tolist())
        gone: set[int] = set()
        flows: list[Flow] = []
        for node, flow in enumerate(self._flow):
            if self.parent[node] in gone or int(self.parent[node]) in tops:
                gone.add(node)
            elif node in tops:
                flows.append(Flow(self.cells[node], self._named(self._union[node])))
            elif flow is not None:
                flows.append(flow)
        return flows

    def _named(self, bits: int) -> tuple[Output, ...]:
        return tuple(output for i, output in enumerate(self._outputs) if bits >> i & 1)


def _port_sets(flows: list[Flow | None], parent: Ints) -> tuple[list[int], list[Output]]:
    """Each node's ports as bits (a node that is no rule has the ports of the rule above), and what the bits mean."""
    outputs = sorted({output for flow in flows if flow for output in flow.outputs}, key=lambda o: o.port)
    number = {output: i for i, output in enumerate(outputs)}
    sets: list[int] = []
    for node, flow in enumerate(flows):
        above = sets[parent[node]] if node else 0
        sets.append(sum(1 << number[o] for o in flow.outputs) if flow else above)
    return sets, outputs


def _volumes(cells: list[Dz]) -> Floats:
    return np.exp2(-np.array([dz.length for dz in cells], np.float64))


def _choose(parent: Ints, real: Ints, cost: Floats, limit: int) -> Ints:
    """The nodes whose subtrees to collapse, so that at most `limit` rules are left."""
    wanted, nothing = int(real.sum()), np.zeros(len(parent), np.int64)
    if (wanted - limit) * len(parent) <= MAX_EXACT_STEPS:
        return np.flatnonzero(_save(parent, real, cost, nothing, wanted - limit))
    low, high = 0.0, float(cost[np.isfinite(cost)].max()) + 1.0
    for _ in range(PRICE_ROUNDS):
        price = (low + high) / 2
        rules, _ = _priced(parent, real, cost, price)
        low, high = (price, high) if rules > limit else (low, price)
    rules, choice = _priced(parent, real, cost, high)
    more, finer = _priced(parent, real, cost, low)
    if rules < limit < more and (more - limit) * len(parent) <= MAX_EXACT_STEPS:
        choice = _save(parent, real, cost, finer, more - limit)
    return np.flatnonzero(choice)


@compiled
def _priced(parent: Ints, real: Ints, cost: Floats, price: float) -> tuple[int, Ints]:
    """The best table at a price per rule: how many rules it has, and the nodes whose subtrees it collapses."""
    size = parent.shape[0]
    kept = price * real
    rules = real.copy()
    collapse = np.zeros(size, np.int64)
    for node in range(size - 1, -1, -1):
        if rules[node] > 1 and cost[node] + price < kept[node]:
            kept[node], rules[node], collapse[node] = cost[node] + price, 1, 1
        if node > 0:
            kept[parent[node]] += kept[node]
            rules[parent[node]] += rules[node]
    _keep_topmost(parent, collapse)
    return rules[0], collapse


@compiled
def _keep_topmost(parent: Ints, collapse: Ints) -> None:
    below = np.zeros(parent.shape[0], np.bool_)
    for node in range(1, parent.shape[0]):
        below[node] = below[parent[node]] or collapse[parent[node]] == 1
    collapse[below] = 0


@compiled
def _save(parent: Ints, real: Ints, cost: Floats, collapsed: Ints, save: int) -> Ints:
    """Collapse more subtrees, so that the table has `save` rules fewer at the least extra cost.

    `best` has, for every subtree, the least cost of saving at least 0, 1, 2, ... rules in it: by sharing the saving
    between its two children, or by collapsing it. A node has at most two children, which follow it.
    """
    size = parent.shape[0]
    rules, paid = np.where(collapsed == 1, 1, real), np.where(collapsed == 1, cost, 0.0)
    child = np.full((size, 2), -1, np.int64)
    inside = np.zeros(size, np.bool_)  # below a collapsed node: no longer there
    for node in range(1, size):
        inside[node] = inside[parent[node]] or collapsed[parent[node]] == 1
    for node in range(size - 1, 0, -1):
        if not inside[node]:
            rules[parent[node]] += rules[node]
            paid[parent[node]] += paid[node]
            child[parent[node], 1] = child[parent[node], 0]
            child[parent[node], 0] = node
    room = np.where(inside, 0, np.minimum(rules - 1, save) + 1)
    first = np.zeros(size + 1, np.int64)
    first[1:] = np.cumsum(room)
    best = np.full(first[size], np.inf)
    left, right = np.zeros(first[size], np.int64), np.zeros(first[size], np.int64)  # shares; -1: collapse
    for node in range(size - 1, -1, -1):
        if inside[node]:
            continue
        at, last = first[node], room[node] - 1
        a, b = child[node]
        for i in range(room[a] if a >= 0 else 1):
            of_a = best[first[a] + i] if a >= 0 else 0.0
            for j in range(room[b] if b >= 0 else 1):
                total = of_a + (best[first[b] + j] if b >= 0 else 0.0)
                place = at + min(i + j, last)
                if total < best[place]:
                    best[place], left[place], right[place] = total, i, j
        if last > 0 and cost[node] - paid[node] < best[at + last]:
            best[at + last], left[at + last] = cost[node] - paid[node], -1
        for place in range(at + last - 1, at - 1, -1):
            if best[place + 1] < best[place]:
                best[place], left[place], right[place] = best[place + 1], left[place + 1], right[place + 1]
    chosen = collapsed.copy()
    stack = [(0, min(save, room[0] - 1))]
    while len(stack) > 0:
        node, share = stack.pop()
        place = first[node] + share
        if left[place] < 0:
            chosen[node] = 1
            continue
        if child[node, 0] >= 0:
            stack.append((child[node, 0], left[place]))
        if child[node, 1] >= 0:
            stack.append((child[node, 1], right[place]))
    _keep_topmost(parent, chosen)
    return chosen

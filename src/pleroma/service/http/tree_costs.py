"""A plan as the tree of cuts that it is, with what each part of the event space costs: rules, deliveries, waste.

What lies below a node is a stretch of the line of all dz. So rules and events, once sorted, are counted for any node by
looking for the two ends of its stretch. Grids are trees as well, whose nodes nobody has written down.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import DzError, NoTree
from pleroma.index import ROOT, Dz, DzSet, GridIndex, Index, TreeIndex
from pleroma.index.tree_walk import LEAF


class PlanNode(NamedTuple):
    """A cell and how it is cut: what is below the coordinate has 0 next, the rest 1. A leaf is not cut."""

    dz: Dz
    attribute: int | None = None
    cut: float | None = None
    leaves: int | None = None
    """None where nobody would count them."""


class HostSubscription(NamedTuple):
    """What a host has registered for one subscription."""

    host: str
    region: DzSet
    filter: Filter


class DeliverySums(NamedTuple):
    """Sampled events in the order of their dz, with sums over all before: how often delivered, and wanted."""

    keys: list[int]
    delivered: list[int]
    wanted: list[int]


def plan_nodes(index: Index, at: Dz = ROOT, depth: int | None = None) -> Iterator[PlanNode]:
    """From one node down so many levels, a node before its parts and the lower part first."""
    if isinstance(index, TreeIndex):
        yield from _of_tree(index, at, depth)
    elif isinstance(index, GridIndex):
        yield from _of_grid(index, at, depth)
    else:
        raise NoTree("the plan in force has rectangles, each with a grid of its own", field="plan", value="selective")


def _of_tree(index: TreeIndex, at: Dz, depth: int | None) -> Iterator[PlanNode]:
    layout = index.layout
    stack = [index.node(at)]
    while stack:
        node = stack.pop()
        dz, d = Dz(layout.codes[node]), index.dimensions[node]
        leaves = (layout.end[node] - node + 1) // 2
        if d == LEAF:
            yield PlanNode(dz, leaves=leaves)
            continue
        yield PlanNode(dz, d, layout.cuts[node], leaves)
        if depth is None or dz.length - at.length < depth:
            stack += (layout.right[node], node + 1)


def _of_grid(index: GridIndex, at: Dz, depth: int | None) -> Iterator[PlanNode]:
    if at.length > index.bits:
        raise DzError(f"{at} is below a leaf", field="at", value=str(at))
    stack = [at]
    while stack:
        dz = stack.pop()
        if dz.length == index.bits:
            yield PlanNode(dz)
            continue
        d = index.order[dz.length]
        lower, upper = dz.children
        yield PlanNode(dz, d, index.extent(lower)[d][1])
        if depth is None or dz.length - at.length < depth:
            stack += (upper, lower)


def dz_key(dz: Dz) -> int:
    """Sorted by it, a dz follows right after those that cover it."""
    return dz.start << 8 | dz.length


def stretch(keys: Sequence[int], dz: Dz) -> tuple[int, int]:
    """Where those at or below a dz begin among sorted keys, and where they end."""
    return bisect_left(keys, dz_key(dz)), bisect_left(keys, dz.end << 8)


def delivery_sums(index: Index, prefix: Dz, events: EventBatch, wishes: Iterable[HostSubscription]) -> DeliverySums:
    """What the regions bring to the hosts of these events, each sent by somebody at another host."""
    dzs = [prefix.then(index.dzs(events.event(row))[0]) for row in range(len(events))]
    delivered, wanted = np.zeros(len(events), np.int64), np.zeros(len(events), np.int64)
    for _, mine in _by_host(wishes):
        regions = DzSet(dz for wish in mine for dz in wish.region)
        delivered += np.array([regions.covers(dz) for dz in dzs], np.bool_)
        wanted += np.logical_or.reduce([events.matches(wish.filter) for wish in mine])
    order = sorted(range(len(dzs)), key=lambda row: dz_key(dzs[row]))
    sums = ([0, *accumulate(each[order].tolist())] for each in (delivered, wanted))
    return DeliverySums([dz_key(dzs[row]) for row in order], *sums)


def _by_host(wishes: Iterable[HostSubscription]) -> Iterable[tuple[str, list[HostSubscription]]]:
    found: dict[str, list[HostSubscription]] = {}
    for wish in wishes:
        found.setdefault(wish.host, []).append(wish)
    return found.items()


def node_answer(
    node: PlanNode, names: Sequence[str], prefix: Dz, rules: Mapping[Any, list[int]], seen: DeliverySums | None
) -> Any:
    """A node as the API shows it. `rules` are the sorted keys of each switch."""
    whole = prefix.then(node.dz)
    counts = [end - begin for begin, end in (stretch(keys, whole) for keys in rules.values())]
    children = None if node.attribute is None else [str(each) for each in node.dz.children]
    shown: dict[str, Any] = {
        "dz": "" if node.dz == ROOT else str(node.dz),
        "attribute": None if node.attribute is None else names[node.attribute],
        "cut": node.cut,
        "children": children,
        "leaves": node.leaves,
        "rules": sum(counts),
        "fullest": max(counts, default=0),
    }
    if seen is None:
        return shown | {"events": None, "deliveries": None, "wasted": None}
    begin, end = stretch(seen.keys, whole)
    deliveries = seen.delivered[end] - seen.delivered[begin]
    wasted = deliveries - (seen.wanted[end] - seen.wanted[begin])
    return shown | {"events": end - begin, "deliveries": deliveries, "wasted": wasted}

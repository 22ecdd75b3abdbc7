"""A plan as a tree of cuts, with what each part of the event space costs: rules, deliveries, waste at hosts.

All dz below a node form one stretch of the line of all dz. So rules and events, once sorted, are counted for any node
by looking for the two ends of its stretch. Grids are trees as well, whose nodes are computed when asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.content import Filter
from pleroma.errors import DzError, NoTree
from pleroma.evaluation.ordered_codes import OrderedCodes
from pleroma.index import ROOT, Dz, DzSet, GridIndex, Index, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.routing import SwitchId
from pleroma.service.http.sampled_traffic import EncodedSample


class PlanNode(NamedTuple):
    """A cell and its cut: below the coordinate the next bit is 0, above it 1. A leaf has no cut."""

    dz: Dz
    attribute: int | None = None
    cut: float | None = None
    leaves: int | None = None
    """At or below it; None for grids."""


class HostSubscription(NamedTuple):
    """A subscription at a host, with the region that covers its filter."""

    host: str
    region: DzSet
    filter: Filter


class DeliverySums(NamedTuple):
    """Sampled events in the order of their dz, with running sums of how often they are delivered, and wanted.

    `delivered[i]` is the sum over the first i dz.
    """

    codes: OrderedCodes
    delivered: Ints
    wanted: Ints


def plan_nodes(index: Index, at: Dz = ROOT, depth: int | None = None, after: Dz | None = None) -> Iterator[PlanNode]:
    """The nodes from `at` down to `depth` levels below it, a node before its parts and the lower part first.

    Those up to and including the node `after` are left out. There may be very many, so they are not looked at.
    """
    if isinstance(index, TreeIndex):
        found = _of_tree(index, at, depth, after)
    elif isinstance(index, GridIndex):
        found = _of_grid(index, at, depth, after)
    else:
        raise NoTree("the plan in force has rectangles, each with a grid of its own", field="plan", value="selective")
    yield from found if after is None else (node for node in found if dz_key(node.dz) > dz_key(after))


def _is_over(dz: Dz, after: Dz | None) -> bool:
    """Whether a node and all below it come before the node `after`."""
    return after is not None and dz.end <= after.start


def _of_tree(index: TreeIndex, at: Dz, depth: int | None, after: Dz | None) -> Iterator[PlanNode]:
    layout = index.layout
    stack = [index.node(at)]
    while stack:
        node = stack.pop()
        dz, d = Dz(layout.codes[node]), index.dimensions[node]
        if _is_over(dz, after):
            continue
        leaves = (layout.end[node] - node + 1) // 2
        if d == LEAF:
            yield PlanNode(dz, leaves=leaves)
            continue
        yield PlanNode(dz, d, layout.cuts[node], leaves)
        if depth is None or dz.length - at.length < depth:
            stack += (layout.right[node], node + 1)


def _of_grid(index: GridIndex, at: Dz, depth: int | None, after: Dz | None) -> Iterator[PlanNode]:
    if at.length > index.bits:
        raise DzError(f"{at} is below a leaf", field="at", value=str(at))
    stack = [at]
    while stack:
        dz = stack.pop()
        if _is_over(dz, after):
            continue
        if dz.length == index.bits:
            yield PlanNode(dz)
            continue
        d = index.order[dz.length]
        lower, upper = dz.children
        yield PlanNode(dz, d, index.extent(lower)[d][1])
        if depth is None or dz.length - at.length < depth:
            stack += (upper, lower)


def dz_key(dz: Dz) -> int:
    """An integer that sorts a dz right behind those that cover it."""
    return dz.start << 8 | dz.length


def stretch(keys: Sequence[int], dz: Dz) -> tuple[int, int]:
    """The begin and the end, among sorted keys, of those at or below a dz."""
    return bisect_left(keys, dz_key(dz)), bisect_left(keys, dz.end << 8)


def delivery_sums(sample: EncodedSample, subscriptions: Iterable[HostSubscription]) -> DeliverySums:
    """Count to how many hosts the regions bring each event, and at how many of them somebody wants it."""
    delivered, wanted = np.zeros((2, len(sample.events)), np.int64)
    by_host: dict[str, list[HostSubscription]] = {}
    for each in subscriptions:
        by_host.setdefault(each.host, []).append(each)
    for mine in by_host.values():
        delivered += sample.codes.within(DzSet(dz for each in mine for dz in each.region))
        wanted += np.logical_or.reduce([sample.events.matches(each.filter) for each in mine])
    order = sample.codes.events
    sums = (np.concatenate([[0], np.cumsum(each[order])]) for each in (delivered, wanted))
    return DeliverySums(sample.codes, *sums)


def node_answer(
    node: PlanNode, names: Sequence[str], prefix: Dz, rules: Mapping[SwitchId, list[int]], sums: DeliverySums | None
) -> dict[str, Any]:
    """A node as the API shows it. `rules` are the sorted keys of each switch's rules."""
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
    if sums is None:
        return shown | {"events": None, "deliveries": None, "wasted_at_hosts": None}
    (begin,), (end,) = sums.codes.stretches(DzSet([whole]))
    deliveries = int(sums.delivered[end] - sums.delivered[begin])
    wasted = deliveries - int(sums.wanted[end] - sums.wanted[begin])
    return shown | {"events": int(end - begin), "deliveries": deliveries, "wasted_at_hosts": wasted}

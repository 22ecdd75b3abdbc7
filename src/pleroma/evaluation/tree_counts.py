"""What a tree delivers and the rules it needs, counted over its leaves without making a cover.

The leaves that a subscriber's boxes meet are found once; from them follow what it is delivered and, merged upwards as
far as they fill a node, the dz it needs. The distinct ones of all subscribers are a star's rules, save those that are
filled by longer ones: no event would follow them. So every rule is the longest around some leaf of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Marks
from pleroma.evaluation.sample import Sample
from pleroma.index import TreeIndex


class Nodes(NamedTuple):
    """The nodes of a tree in preorder, as in `TreeTables`."""

    dims: Ints
    cuts: Floats
    right: Ints
    parent: Ints


def deliveries_of(index: TreeIndex, sample: Sample) -> int:
    """How often the events of a sample are delivered to its owners, wanted or not."""
    return _counted(_nodes(index), sample, _events(index, sample))[0]


def rules_of(tree: TreeIndex | Nodes, sample: Sample) -> int:
    """The rules that the subscriptions need on a star, whatever the events."""
    nodes = tree if isinstance(tree, Nodes) else _nodes(tree)
    return _counted(nodes, sample, np.zeros(len(nodes.dims), np.int64))[1]


def load_of(index: TreeIndex, sample: Sample) -> tuple[Ints, Ints]:
    """By leaf, as it stands among the nodes: its events and the owners that meet it. Other nodes have none."""
    events = _events(index, sample)
    return events, _counted(_nodes(index), sample, events)[2]


class FilledNodes(NamedTuple):
    """Owner i fills the nodes `nodes[first[i]]` to `nodes[first[i + 1]]`, in preorder and none inside another."""

    nodes: Ints
    first: Ints


def filled_nodes(index: TreeIndex, sample: Sample) -> FilledNodes:
    """The fewest nodes of a tree with all leaves that an owner meets, and no others."""
    boxes = _OwnedBoxes(sample.first, sample.last, sample.owner)
    return FilledNodes(*_fill(_nodes(index), boxes, sample.owners))


def _events(index: TreeIndex, sample: Sample) -> Ints:
    leaves = index.tables.leaves_of(sample.points)
    return np.bincount(leaves, minlength=len(index.dimensions)).astype(np.int64)


def _nodes(index: TreeIndex) -> Nodes:
    tables = index.tables
    return Nodes(tables.dims, tables.cuts, tables.right, tables.parent)


def _counted(nodes: Nodes, sample: Sample, events: Ints) -> tuple[int, int, Ints]:
    boxes = _OwnedBoxes(sample.first, sample.last, sample.owner)
    found, rules, met = _count(nodes, boxes, events)
    return int(found), int(rules.sum()), met


class _OwnedBoxes(NamedTuple):
    """Boxes and their owners; the boxes of an owner stand together."""

    first: Floats
    last: Floats
    owner: Ints


class _Scratch(NamedTuple):
    """Memory that is used again for every owner."""

    stamp: Ints
    """By leaf: the owner that met it last."""
    leaves: Ints
    """The leaves that an owner meets, in order."""
    merged: Ints
    """The nodes that an owner fills, none inside another."""
    stack: Ints


@compiled
def _scratch(size: Int) -> _Scratch:
    return _Scratch(
        np.full(size, -1, np.int64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(256, np.int64)
    )


@compiled
def _end_of_owner(owner: Ints, begin: Int) -> Int:
    """Where the boxes end that have the same owner as box `begin`."""
    end = begin + 1
    while end < owner.shape[0] and owner[end] == owner[begin]:
        end += 1
    return end


@compiled
def _fill(nodes: Nodes, boxes: _OwnedBoxes, owners: Int) -> tuple[Ints, Ints]:
    """The nodes that each owner fills, one owner after the other, and where those of each begin."""
    scratch = _scratch(nodes.dims.shape[0])
    first = np.zeros(owners + 1, np.int64)
    kept = np.empty(1024, np.int64)
    count: Int = 0
    begin: Int = 0
    while begin < boxes.owner.shape[0]:
        end = _end_of_owner(boxes.owner, begin)
        more = _merge_leaves(nodes, _meet_leaves(nodes, boxes, begin, end, scratch), scratch)
        if count + more > kept.shape[0]:
            longer = np.empty(2 * (count + more), np.int64)
            longer[:count] = kept[:count]
            kept = longer
        kept[count : count + more] = scratch.merged[:more]
        count += more
        first[boxes.owner[begin] + 1] = more
        begin = end
    return kept[:count].copy(), np.cumsum(first)


@compiled
def _count(nodes: Nodes, boxes: _OwnedBoxes, events: Ints) -> tuple[Int, Marks, Ints]:
    """Deliveries, the nodes that are rules, and the owners that meet each leaf."""
    size = nodes.dims.shape[0]
    rules = np.zeros(size, np.bool_)
    owners = np.zeros(size, np.int64)
    scratch = _scratch(size)
    deliveries: Int = 0
    begin: Int = 0
    while begin < boxes.owner.shape[0]:
        end = _end_of_owner(boxes.owner, begin)
        found = _meet_leaves(nodes, boxes, begin, end, scratch)
        for leaf in scratch.leaves[:found]:
            deliveries += events[leaf]
            owners[leaf] += 1
        for node in scratch.merged[: _merge_leaves(nodes, found, scratch)]:
            rules[node] = True
        begin = end
    _drop_filled(nodes, rules)
    return deliveries, rules, owners


@compiled
def _meet_leaves(nodes: Nodes, boxes: _OwnedBoxes, begin: Int, end: Int, scratch: _Scratch) -> Int:
    """Find the leaves that an owner's boxes, from number `begin` to `end`, meet; how many there are."""
    dims, cuts, right, _ = nodes
    stamp, leaves, _, stack = scratch
    mine = boxes.owner[begin]
    found = 0
    for box in range(begin, end):
        first, last = boxes.first[box], boxes.last[box]
        top = 1
        stack[0] = 0
        while top:
            top -= 1
            node = stack[top]
            d = dims[node]
            while d >= 0:
                cut = cuts[node]
                if last[d] < cut:
                    node += 1
                elif first[d] >= cut:
                    node = right[node]
                else:
                    stack[top] = right[node]
                    top += 1
                    node += 1
                d = dims[node]
            if stamp[node] != mine:
                stamp[node] = mine
                leaves[found] = node
                found += 1
    if end - begin > 1:
        leaves[:found] = np.sort(leaves[:found])
    return found


@compiled
def _merge_leaves(nodes: Nodes, found: Int, scratch: _Scratch) -> Int:
    """Merge an owner's leaves upwards, as far as they fill a node; how many nodes there are then."""
    parent, merged = nodes.parent, scratch.merged
    kept = 0
    for leaf in scratch.leaves[:found]:
        node = leaf
        while kept and node and merged[kept - 1] == parent[node] + 1 and node != parent[node] + 1:
            kept -= 1
            node = parent[node]
        merged[kept] = node
        kept += 1
    return kept


@compiled
def _drop_filled(nodes: Nodes, rules: Marks) -> None:
    """Drop rules that longer rules fill: no event would follow them."""
    full = rules.copy()
    for node in range(nodes.dims.shape[0] - 1, -1, -1):
        if nodes.dims[node] >= 0 and full[node + 1] and full[nodes.right[node]]:
            full[node] = True
            rules[node] = False

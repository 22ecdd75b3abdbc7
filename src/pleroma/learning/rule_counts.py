"""Counting the rules of a growing tree on every switch, for any number of its splits, after one walk of the boxes.

A box meets a node exactly if it meets a leaf below it. So who meets the leaves of the largest tree says who meets the
leaves of every smaller one, and the rules follow by bit operations over the nodes, for 64 ports at a time: a port fills
a node whose halves it fills, and a node is a rule where some port fills it and not the node around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Words
from pleroma.content import Schema
from pleroma.evaluation.placement import NOWHERE_PORT, Spread
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import Nodes, rules_of
from pleroma.index import TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.learning.growth import preorder

MAX_MEETING_BYTES = 1 << 28
"""Where the bits of who meets which node would take more memory, boxes walk through every tree anew."""


class SplitSequence(NamedTuple):
    """A tree in the order of its splits. By node: its dimension, its cut, and its first child, 0 for a leaf.

    The children of the k-th split are nodes 2k + 1 and 2k + 2, so that the tree after fewer splits is a beginning.
    """

    dims: Ints
    cuts: Floats
    child: Ints

    @classmethod
    def of(cls, tree: TreeIndex) -> SplitSequence:
        """The splits of a finished tree in preorder. Any order will do where all of the tree is counted."""
        tables = tree.tables
        split = np.flatnonzero(tables.dims != LEAF)
        lower = 2 * np.arange(len(split)) + 1
        number, child = np.zeros((2, len(tables.dims)), np.int64)
        number[split + 1], number[tables.right[split]] = lower, lower + 1
        child[number[split]] = lower
        order = np.argsort(number)
        return cls(tables.dims[order], tables.cuts[order], child)

    @property
    def made(self) -> int:
        return len(self.dims) // 2

    def nodes(self, splits: int) -> Nodes:
        """The nodes of the tree after so many splits."""
        numbers = np.arange(len(self.dims))
        dims, number, right, parent = preorder(self.dims, numbers, self.child, min(splits, self.made))
        return Nodes(dims, np.where(dims == LEAF, 0.0, self.cuts[number]), right, parent)

    def tree(self, schema: Schema, bits: int, splits: int) -> TreeIndex:
        nodes = self.nodes(splits)
        cuts = nodes.cuts[nodes.dims != LEAF]
        return TreeIndex(schema, bits, tuple(nodes.dims.tolist()), tuple(cuts.tolist()))


class RuleCounter:
    """Counts the rules of a tree after any number of splits, on switches that have owners behind different ports.

    `ways` has, for each kind of switch, the port of each owner of the sample.
    """

    def __init__(self, tree: SplitSequence, sample: Sample, ways: Sequence[Ints]) -> None:
        self._tree = tree
        self._sample = sample
        self._ways = ways
        self._kept: dict[int, Words] = {}
        self._room = MAX_MEETING_BYTES

    def after(self, splits: int, way: int) -> int:
        """The rules that a switch needs which has owner i behind port `ways[way][i]`."""
        if (met := self._met) is None:
            return rules_of(self._tree.nodes(splits), _behind_ports(self._sample, self._ways[way]))
        return int(_rules(self._tree.child, self._by_port(met, way), min(splits, self._tree.made)))

    def fullest(self, splits: int) -> int:
        return max(self.after(splits, way) for way in range(len(self._ways)))

    @cached_property
    def _met(self) -> Words | None:
        """A row for 64 owners at a time, with the bits of those that meet each node."""
        sample, words = self._sample, _words(self._sample.owners)
        if 8 * len(self._tree.dims) * words > MAX_MEETING_BYTES:
            return None
        return _walk(self._tree, sample.first, sample.last, sample.owner, words)

    def _by_port(self, met: Words, way: int) -> Words:
        """A row for 64 ports at a time, with the bits of those that meet each node; kept while there is room."""
        ports = self._ways[way][: self._sample.owners]
        if np.array_equal(ports, np.arange(len(ports))):
            return met
        if (known := self._kept.get(way)) is not None:
            return known
        found = _behind(met, ports)
        if found.nbytes <= self._room:
            self._room -= found.nbytes
            self._kept[way] = found
        return found


def port_groupings(spread: Spread) -> list[tuple[int, ...]]:
    """By switch: which hosts are behind the same port, whatever its number. Switches often group hosts alike."""
    found = []
    for ports in spread:
        number: dict[int, int] = {NOWHERE_PORT: NOWHERE_PORT}
        found.append(tuple(number.setdefault(port, len(number) - 1) for port in ports.tolist()))
    return found


def fullest_switch_rules(tree: TreeIndex, sample: Sample, spread: Spread) -> int:
    """The rules that a tree needs on the fullest switch."""
    ways = [np.array(way) for way in dict.fromkeys(port_groupings(spread))]
    splits = SplitSequence.of(tree)
    return RuleCounter(splits, sample, ways).fullest(splits.made)


def _behind_ports(sample: Sample, ports: Ints) -> Sample:
    """The boxes of owners that a switch sends something, as those of the ports."""
    reached = ports[sample.owner] != NOWHERE_PORT
    return sample.part(np.ones(sample.events, np.bool_), reached).grouped(ports)


def _words(ports: int) -> int:
    return (ports + 63) >> 6


@compiled
def _walk(tree: SplitSequence, first: Floats, last: Floats, owner: Ints, words: Int) -> Words:
    """A row for 64 owners at a time, with the bits of those that meet each node."""
    dims, cuts, child = tree
    size = dims.shape[0]
    met = np.zeros((words, size), np.uint64)
    stack = np.empty(256, np.int64)
    for box in range(first.shape[0]):
        row = met[owner[box] >> 6]
        bit = np.uint64(1) << np.uint64(owner[box] & 63)
        top = 1
        stack[0] = 0
        while top:
            top -= 1
            node = stack[top]
            while child[node]:
                d, cut = dims[node], cuts[node]
                node = child[node]
                if last[box, d] < cut:
                    continue
                if first[box, d] >= cut:
                    node += 1
                else:
                    stack[top] = node + 1
                    top += 1
            row[node] |= bit
    for word in range(words):
        row = met[word]
        for node in range(size - 1, -1, -1):
            if child[node]:
                row[node] = row[child[node]] | row[child[node] + 1]
    return met


@compiled
def _behind(met: Words, ports: Ints) -> Words:
    """Bits by port, from the bits by owner."""
    found = np.zeros(((ports.max() >> 6) + 1, met.shape[1]), np.uint64)
    for owner in range(ports.shape[0]):
        if ports[owner] < 0:
            continue  # the switch sends this owner nothing
        row, mine = found[ports[owner] >> 6], met[owner >> 6]
        shift, place = np.uint64(owner & 63), np.uint64(ports[owner] & 63)
        for node in range(met.shape[1]):
            row[node] |= ((mine[node] >> shift) & np.uint64(1)) << place
    return found


@compiled
def _rules(child: Ints, met: Words, splits: Int) -> Int:
    """The number of rules after so many splits, from the bits of the ports that meet each node."""
    size = 2 * splits + 1
    rules = np.zeros(size, np.bool_)
    fills = np.empty(size, np.uint64)
    for word in range(met.shape[0]):
        row = met[word]
        for node in range(size - 1, -1, -1):
            lower = child[node]
            if 0 < lower < size:
                both = fills[lower] & fills[lower + 1]
                fills[node] = both
                if fills[lower] != both:
                    rules[lower] = True
                if fills[lower + 1] != both:
                    rules[lower + 1] = True
            else:
                fills[node] = row[node]
        if fills[0]:
            rules[0] = True
    full = rules.copy()
    for node in range(size - 1, -1, -1):
        lower = child[node]
        if 0 < lower < size and full[lower] and full[lower + 1]:  # no event would follow a rule that longer ones fill
            full[node] = True
            rules[node] = False
    return np.int64(rules.sum())

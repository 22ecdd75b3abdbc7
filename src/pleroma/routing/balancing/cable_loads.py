"""What traffic puts on the cables between switches, if its events travel on given trees.

An event crosses a cable of its tree if the sender is on one side and a receiver on the other. All events of a sample
are counted at once: a product of two matrices says of each event whether it has a receiver beyond each cable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Floats, Ints, Marks
from pleroma.index.dz import Dz
from pleroma.routing.family import Family
from pleroma.routing.topology import HostId, Link, SwitchId, Topology
from pleroma.routing.tree import Tree


class Sent(NamedTuple):
    """Events of one dz that a host sent, and the hosts to which they go; `weight` is how many there were."""

    dz: Dz
    origin: HostId
    receivers: frozenset[HostId]
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class CableLoads:
    """Events that cross each cable: `lines` has two numbers for each link of the topology, from a to b and back.

    A cable counts by both directions together, and more if its capacity is less than that of the fastest cable.
    """

    topology: Topology
    lines: Floats

    @cached_property
    def cables(self) -> Floats:
        """For each link, the events in both directions, as many times as the fastest cable is faster."""
        return (self.lines[0::2] + self.lines[1::2]) * slowness(self.topology)

    @property
    def busiest(self) -> float:
        return float(self.cables.max(initial=0.0))

    @property
    def busiest_link(self) -> Link | None:
        """The first of the busiest; None if no event crosses any."""
        return self.topology.links[int(self.cables.argmax())] if self.busiest else None

    @property
    def busiest_direction(self) -> float:
        """The same for one direction of a cable alone."""
        return float((self.lines * slowness(self.topology).repeat(2)).max(initial=0.0))

    @property
    def crossings(self) -> float:
        """Over all cables, each direction."""
        return float(self.lines.sum())


def slowness(topology: Topology) -> Floats:
    """For each link, how many times faster the fastest link is."""
    capacities = np.array([link.capacity for link in topology.links], np.float64)
    return np.asarray(capacities.max(initial=0.0) / capacities, np.float64)


def predict(topology: Topology, traffic: Sequence[Sent], families: Iterable[Family]) -> CableLoads:
    """The loads of this traffic, each event on the tree of the family that has its dz; what none has goes nowhere."""
    lines = np.zeros(2 * len(topology.links))
    demanded = Demanded(topology, traffic)
    for family in families:
        inside = [number for number, sent in enumerate(traffic) if family.region.covers(sent.dz)]
        if inside:
            lines += demanded.loads(family.tree, [inside])[0]
    return CableLoads(topology, lines)


class Demanded:
    """Traffic as a matrix: from which switch to which switches. Whatever has the same ends is one row.

    Hosts that the topology does not have neither send nor receive.
    """

    def __init__(self, topology: Topology, traffic: Sequence[Sent]) -> None:
        self._topology = topology
        self._column = _switches_with_hosts(topology)
        self._weight = np.array([s.weight if s.origin in topology.host else 0.0 for s in traffic], np.float64)
        rows: dict[tuple[int, frozenset[int]], int] = {}
        self._row = np.array([rows.setdefault(self._ends(sent), len(rows)) for sent in traffic], np.int64)
        self._origin: Ints = np.array([origin for origin, _ in rows], np.int64)
        self._wanted = np.zeros((len(rows), len(self._column)), np.float32)
        for number, (_, receivers) in enumerate(rows):
            self._wanted[number, list(receivers)] = 1

    def _ends(self, sent: Sent) -> tuple[int, frozenset[int]]:
        """The columns of the switches. What a host receives at the sender's own switch crosses no cable."""
        host, column = self._topology.host, self._column
        if sent.origin not in host:
            return 0, frozenset()
        origin = column[host[sent.origin].switch]
        return origin, frozenset(column[host[each].switch] for each in sent.receivers if each in host) - {origin}

    def loads(self, tree: Tree, groups: Sequence[Sequence[int]]) -> Floats:
        """For each group (numbers of the traffic), what it puts on each line if it travels on this tree."""
        weights = np.zeros((len(groups), len(self._origin)))
        for number, group in enumerate(groups):
            members = np.asarray(group, np.int64)
            np.add.at(weights[number], self._row[members], self._weight[members])
        numbers, before, beyond = _sides(self._topology, tree, self._column)
        crossed = (self._wanted @ beyond.T.astype(np.float32) > 0) & before.T[self._origin]
        lines = np.zeros((len(groups), 2 * len(self._topology.links)))
        lines[:, numbers] = weights @ crossed
        return lines


def pair_loads(topology: Topology, tree: Tree) -> Floats:
    """What each line carries if every host sends one event to each other host."""
    column = _switches_with_hosts(topology)
    hosts = np.array([len(topology.hosts_of[switch]) for switch in column], np.float64)
    numbers, before, beyond = _sides(topology, tree, column)
    lines = np.zeros(2 * len(topology.links))
    lines[numbers] = (before @ hosts) * (beyond @ hosts)
    return lines


def _switches_with_hosts(topology: Topology) -> dict[SwitchId, int]:
    return {switch: n for n, switch in enumerate(s for s in topology.switches if topology.hosts_of[s])}


def _sides(topology: Topology, tree: Tree, column: Mapping[SwitchId, int]) -> tuple[list[int], Marks, Marks]:
    """The lines of a tree, and for each the switches (by column) before it and beyond it."""
    number = {link: n for n, link in enumerate(topology.links)}
    numbers: list[int] = []
    before: list[Marks] = []
    beyond: list[Marks] = []
    for part in _rooted_parts(tree):
        below = {switch: np.zeros(len(column), np.bool_) for switch, _ in part}
        for switch, above in reversed(part):
            if switch in column:
                below[switch][column[switch]] = True
            if above is not None:
                below[above[0]] |= below[switch]
        whole = below[part[0][0]]
        for switch, above in part:
            if above is not None:
                link, inside = above[1], below[switch]
                ends = (inside, whole & ~inside) if link.a == switch else (whole & ~inside, inside)
                numbers += [2 * number[link], 2 * number[link] + 1]
                before += ends
                beyond += ends[::-1]
    shape = (len(numbers), len(column))
    return numbers, np.array(before, np.bool_).reshape(shape), np.array(beyond, np.bool_).reshape(shape)


def _rooted_parts(tree: Tree) -> Iterator[list[tuple[SwitchId, tuple[SwitchId, Link] | None]]]:
    """For each connected part its switches, parents before children, each with its parent and the link to it."""
    seen: set[SwitchId] = set()
    for root in tree.neighbours:
        if root in seen:
            continue
        seen.add(root)
        part: list[tuple[SwitchId, tuple[SwitchId, Link] | None]] = [(root, None)]
        for switch, _ in part:  # which grows on the way
            for _, other, _, link in tree.neighbours[switch]:
                if other not in seen:
                    seen.add(other)
                    part.append((other, (switch, link)))
        yield part

"""The acyclic structure that events follow: one tree of low latency for each connected part of the network.

All paths lie in the same tree, so publishers and subscribers share them and an event reaches a host once (Bhowmik et
al. 2017, III-B). A tree may also be rooted where a publisher is (Bhowmik 2013, 4.2.1; Grunert 2014, 2.2.1). When the
network changes, a tree is repaired rather than built anew, because every link that changes costs flow operations on
many switches.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from pleroma.errors import TopologyError, UnknownName
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology

ALL_ROOTS = 256  # up to this many switches, each is tried as the root
SOME_ROOTS = 64  # beyond, only this many of the most central ones
LANDMARKS = 16  # central is what is near to this many switches that have hosts

Neighbours = Mapping[SwitchId, Sequence[tuple[Port, SwitchId, Port, Link]]]


Cable = tuple[tuple[SwitchId, Port], ...]
"""The two ends of a link, sorted."""


class Hop(NamedTuple):
    """An event leaves `switch` through `port`."""

    switch: SwitchId
    port: Port


class _Reached(NamedTuple):
    """How a search reached a switch. They compare by distance, then by hops, then by name and port."""

    far: float
    hops: int
    parent: SwitchId
    down: Port  # of the parent
    switch: SwitchId
    up: Port
    link: Link | None  # None where the search began


_Search = dict[SwitchId, _Reached]  # parents before children


@dataclass(frozen=True)
class Tree:
    """`links`, sorted, join all switches that the topology joins, and close no cycle."""

    topology: Topology = field(hash=False, repr=False)
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(sorted(self.links, key=cable_of)))
        _check(self)

    @cached_property
    def neighbours(self) -> Neighbours:
        """As `Topology.neighbours`, along the tree only."""
        return _along(self.topology, self.links)

    @cached_property
    def toward(self) -> Mapping[HostId, Mapping[SwitchId, Port]]:
        """For every host, the port that leads to it from each switch of its part of the network."""
        found: dict[HostId, Mapping[SwitchId, Port]] = {}
        for part in self._parts:
            upward = {switch: step.up for switch, step in part.items()}
            for host in (host for switch in part for host in self.topology.hosts_of[switch]):
                # Paths lead up to the root, except from the switches between the root and the host.
                downward = {step.parent: step.down for step in _climb(part, host.switch)}
                found[host.name] = upward | downward | {host.switch: host.port}
        return found

    def next_port(self, switch: str, host: str) -> Port | None:
        """The port of `switch` that leads to `host`; None if the tree does not connect them."""
        port = self.toward[self.topology.find_host(host).name].get(SwitchId(switch))
        if port is None and switch not in self.neighbours:
            raise UnknownName("switch", switch, self.topology.switches)
        return port

    def path(self, sender: str, receiver: str) -> list[Hop]:
        """The path of an event between two hosts; empty if there is none, or if they are the same host."""
        start, end = self.topology.find_host(sender), self.topology.find_host(receiver)
        between = self._between(start, end)
        if between is None or start == end:
            return []
        up, down = between
        hops = [Hop(step.switch, step.up) for step in up] + [Hop(step.parent, step.down) for step in down]
        return [*hops, Hop(end.switch, end.port)]

    def latency(self, sender: str, receiver: str) -> float:
        """Seconds from host to host over idle links; infinite if the tree does not connect them."""
        start, end = self.topology.find_host(sender), self.topology.find_host(receiver)
        between = self._between(start, end)
        if between is None:
            return math.inf
        crossed = [step.link.latency for steps in between for step in steps if step.link is not None]
        return 0.0 if start == end else math.fsum([start.latency, *crossed, end.latency])

    @cached_property
    def mean_latency(self) -> float:
        """Over all pairs of hosts that can reach each other; 0 if there are none."""
        total, pairs = 0.0, 0
        for part in self._parts:
            hosts = [host for switch in part for host in self.topology.hosts_of[switch]]
            total += _cost(self.topology, part)[0] + (len(hosts) - 1) * math.fsum(host.latency for host in hosts)
            pairs += len(hosts) * (len(hosts) - 1) // 2
        return total / pairs if pairs else 0.0

    @cached_property
    def _parts(self) -> Sequence[_Search]:
        return _searches(self.neighbours)

    def _between(self, start: Host, end: Host) -> tuple[list[_Reached], list[_Reached]] | None:
        """The steps up from one switch, and those down to the other, without the steps to the root that they share."""
        part = next(part for part in self._parts if start.switch in part)
        if end.switch not in part:
            return None
        up, down = list(_climb(part, start.switch)), list(_climb(part, end.switch))
        while up and down and up[-1] == down[-1]:
            up.pop()
            down.pop()
        return up, down[::-1]


def cable_of(link: Link) -> Cable:
    """The same for a link whichever end is written first, and whatever its speed."""
    return tuple(sorted(link.ends))


def low_latency_tree(topology: Topology) -> Tree:
    """Of the trees of shortest paths from one switch, that with the lowest mean latency from host to host.

    Every switch is tried as the root. In a part of more than `ALL_ROOTS` switches, only the `SOME_ROOTS` are that have
    the least sum of latencies to `LANDMARKS` switches with hosts. Ties go to fewer hops, then to the lesser name.
    """
    return _made(topology, (_best(topology, part) for part in components(topology)))


def rooted_tree(topology: Topology, switch: str) -> Tree:
    """The shortest paths from one switch. Parts of the network it cannot reach get trees of low latency."""
    root = SwitchId(switch)
    if root not in topology.neighbours:
        raise UnknownName("switch", switch, topology.switches)
    return _made(
        topology,
        (
            _search(topology.neighbours, root) if root in part else _best(topology, part)
            for part in components(topology)
        ),
    )


def cheapest_paths_tree(topology: Topology, roots: Iterable[SwitchId], costs: Mapping[Link, float]) -> Tree:
    """The cheapest paths from these switches, one in each connected part, if a link costs what `costs` says."""
    priced = {link: replace(link, latency=costs[link]) for link in topology.links}
    link_of = {price: link for link, price in priced.items()}
    neighbours = {s: [(p, o, q, priced[x]) for p, o, q, x in each] for s, each in topology.neighbours.items()}
    found = [step.link for root in roots for step in _search(neighbours, root).values()]
    return Tree(topology, tuple(link_of[link] for link in found if link is not None))


def repair(tree: Tree, topology: Topology) -> Tree:
    """The tree for a network that has changed, with every link of the old one that still exists (at whatever speed).

    What has come apart is joined by further links, best first: those of the lowest mean latency between the hosts on
    either side. After the loss of one link no other choice gives a lower mean latency.
    """
    return tree_along(topology, (cable_of(link) for link in tree.links))


def tree_along(topology: Topology, cables: Iterable[Cable]) -> Tree:
    """The tree with these cables, as far as the network has them and they close no cycle, and with what else it needs.

    Further links are chosen as `repair` says.
    """
    wanted = set(cables)
    groups = _Groups()
    links = [link for link in topology.links if cable_of(link) in wanted and groups.join(link.a, link.b)]
    away = _mean_distances(topology, _along(topology, links))
    further = sorted(
        topology.links, key=lambda link: (math.fsum((away[link.a], link.latency, away[link.b])), cable_of(link))
    )
    links += [link for link in further if groups.join(link.a, link.b)]
    return Tree(topology, tuple(links))


def components(topology: Topology, carries: Callable[[Link], bool] = lambda _: True) -> list[set[SwitchId]]:
    """The switches of each part that is connected by links that carry events.

    Parts are in the order in which the topology lists the first switch of each.
    """
    parts: list[set[SwitchId]] = []
    seen: set[SwitchId] = set()
    for switch in topology.switches:
        if switch in seen:
            continue
        part, edge = {switch}, [switch]
        while edge:
            new = {other for _, other, _, link in topology.neighbours[edge.pop()] if carries(link)} - part
            part |= new
            edge += new
        parts.append(part)
        seen |= part
    return parts


class _Groups:
    """Which switches are joined so far."""

    def __init__(self) -> None:
        self._above: dict[SwitchId, SwitchId] = {}

    def join(self, a: SwitchId, b: SwitchId) -> bool:
        """False if they were joined before."""
        a, b = self._top(a), self._top(b)
        self._above[a] = b
        return a != b

    def _top(self, switch: SwitchId) -> SwitchId:
        above = self._above
        while (parent := above.setdefault(switch, switch)) != switch:
            above[switch] = switch = above.get(parent, parent)
        return switch


def _check(tree: Tree) -> None:
    known, groups = set(tree.topology.links), _Groups()
    for link in tree.links:
        if link not in known:
            raise TopologyError("the network has no such link", field=_named(link), value=link)
        if not groups.join(link.a, link.b):
            raise TopologyError("the link closes a cycle", field=_named(link), value=link)
    for link in tree.topology.links:
        if groups.join(link.a, link.b):
            raise TopologyError("the network joins what the tree leaves apart", field=_named(link), value=link)


def _named(link: Link) -> str:
    return f"link {link.a}-{link.b}"


def _along(topology: Topology, links: Iterable[Link]) -> Neighbours:
    used = set(links)
    return {switch: [each for each in found if each[3] in used] for switch, found in topology.neighbours.items()}


def _made(topology: Topology, searches: Iterable[_Search]) -> Tree:
    return Tree(topology, tuple(s.link for search in searches for s in search.values() if s.link is not None))


def _search(neighbours: Neighbours, root: SwitchId) -> _Search:
    """Dijkstra's shortest paths. The outcome does not depend on the order in which anything is listed."""
    found: _Search = {}
    best = {root: _Reached(0.0, 0, root, Port(0), root, Port(0), None)}
    edge = [best[root]]
    while edge:
        step = heapq.heappop(edge)
        switch = step.switch
        if switch in found:
            continue
        found[switch] = step
        far, hops = step.far, step.hops + 1
        for port, other, other_port, link in neighbours[switch]:
            distance = far + link.latency
            known = best.get(other)
            if known is None or (distance, hops, switch, port) < known:
                best[other] = _Reached(distance, hops, switch, port, other, other_port, link)
                heapq.heappush(edge, best[other])
    return found


def _searches(neighbours: Neighbours) -> list[_Search]:
    """One for each connected part, from the switch with the least name."""
    searches: list[_Search] = []
    seen: set[SwitchId] = set()
    for switch in sorted(neighbours):
        if switch not in seen:
            searches.append(_search(neighbours, switch))
            seen |= searches[-1].keys()
    return searches


def _climb(search: _Search, switch: SwitchId) -> Iterator[_Reached]:
    """The steps from a switch back to where the search began."""
    step = search[switch]
    while step.link is not None:
        yield step
        step = search[step.parent]


def _best(topology: Topology, part: set[SwitchId]) -> _Search:
    searches = (_search(topology.neighbours, root) for root in _roots(topology, part))
    return min(searches, key=lambda search: _cost(topology, search))


def _roots(topology: Topology, part: set[SwitchId]) -> Sequence[SwitchId]:
    return sorted(part) if len(part) <= ALL_ROOTS else most_central(topology, part, SOME_ROOTS)


def most_central(topology: Topology, part: set[SwitchId], count: int) -> list[SwitchId]:
    """The switches of a connected part with the least sum of latencies to `LANDMARKS` switches with hosts."""
    switches = sorted(part)
    near_hosts = [switch for switch in switches if topology.hosts_of[switch]] or switches
    searches = [
        _search(topology.neighbours, switch) for switch in near_hosts[:: math.ceil(len(near_hosts) / LANDMARKS)]
    ]
    return heapq.nsmallest(
        count, switches, key=lambda switch: (math.fsum(search[switch].far for search in searches), switch)
    )


def _hosts_below(topology: Topology, search: _Search) -> dict[SwitchId, int]:
    below = {switch: len(topology.hosts_of[switch]) for switch in search}
    for step in reversed(search.values()):
        if step.link is not None:
            below[step.parent] += below[step.switch]
    return below


def _cost(topology: Topology, search: _Search) -> tuple[float, int, SwitchId]:
    """The latency and the hops between all pairs of hosts, leaving out their own lines; ties go by the root's name."""
    below = _hosts_below(topology, search)
    root = next(iter(search))
    everyone = below[root]
    pairs = [(step.link.latency, below[s] * (everyone - below[s])) for s, step in search.items() if step.link]
    return math.fsum(latency * count for latency, count in pairs), sum(count for _, count in pairs), root


def _mean_distances(topology: Topology, neighbours: Neighbours) -> dict[SwitchId, float]:
    """From each switch to the hosts it reaches along these links, leaving out their own lines; 0 if it reaches none."""
    away = dict.fromkeys(neighbours, 0.0)
    for search in _searches(neighbours):
        below = _hosts_below(topology, search)
        everyone = below[next(iter(search))]
        for switch, step in search.items() if everyone else ():
            if step.link is None:
                away[switch] = math.fsum(s.far * len(topology.hosts_of[s.switch]) for s in search.values()) / everyone
            else:  # one step further from everyone, but nearer to those below
                away[switch] = away[step.parent] + step.link.latency * (everyone - 2 * below[switch]) / everyone
    return away

"""Networks by name: `build("fat-tree:4")`. The same name always gives the same network.

Switches are R1, R2, ..., hosts h1, h2, ... at fd00::1, fd00::2, ... A switch has its hosts on its first ports, then its
links in the order in which they are described here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pleroma.errors import TopologyError, UnknownName, shown
from pleroma.routing.topology import MAX_PORT_NUMBER, Host, HostId, Link, SwitchId, Topology
from pleroma.routing.topology_files import (
    FREE_ADDRESS,
    FREE_PORT,
    MAX_HOSTS,
    MAX_SWITCHES,
    check_size,
    load,
    wire,
)

MAX_PODS = 72  # a fat tree of more has over 100,000 hosts
MAX_DEGREE = 64

_NUMBER = r"(\d{1,99})"


def line(n: int, hosts_per_switch: int = 1) -> Topology:
    """R1 - R2 - ... - Rn."""
    check_size("switches", n, 1, MAX_SWITCHES)
    return _network(n, _spread(range(1, n + 1), hosts_per_switch), (_link(i, i + 1) for i in range(1, n)))


def ring(n: int, hosts_per_switch: int = 1) -> Topology:
    """A line whose ends are joined (Bhowmik 2013, 6.1 measures on such a ring of 20 switches, with a host on each)."""
    check_size("switches", n, 3, MAX_SWITCHES)
    switches = range(1, n + 1)
    return _network(n, _spread(switches, hosts_per_switch), (_link(i, i % n + 1) for i in switches))


def star(n: int, hosts_per_switch: int = 1) -> Topology:
    """R1 in the centre, without hosts, and n switches around it."""
    check_size("switches around the centre", n, 1, MAX_SWITCHES - 1)
    leaves = range(2, n + 2)
    return _network(n + 1, _spread(leaves, hosts_per_switch), (_link(1, leaf) for leaf in leaves))


def single(hosts: int) -> Topology:
    """One switch with host i on port i."""
    check_size("hosts", hosts, 1, MAX_PORT_NUMBER)
    return _network(1, _spread([1], hosts), ())


def fat_tree(k: int) -> Topology:
    """k pods of k/2 aggregation and k/2 edge switches, (k/2)^2 core switches, k/2 hosts on each edge switch.

    Numbered core first, then aggregation, then edge, pod by pod. In a pod every edge switch is linked to every
    aggregation switch; the i-th aggregation switch of each pod is linked to the i-th k/2 of the core switches.
    """
    check_size("k", k, 2, MAX_PODS)
    if k % 2:
        raise TopologyError(f"must be even, not {k}", field="k", value=k)
    half = k // 2
    core = range(1, half * half + 1)
    aggregation = [range(core.stop + pod * half, core.stop + (pod + 1) * half) for pod in range(k)]
    edge = [range(pod.start + k * half, pod.stop + k * half) for pod in aggregation]
    below = [_link(low, high) for lows, highs in zip(edge, aggregation, strict=True) for low in lows for high in highs]
    above = [_link(low, core[i * half + j]) for lows in aggregation for i, low in enumerate(lows) for j in range(half)]
    return _network(edge[-1].stop - 1, _spread(range(edge[0].start, edge[-1].stop), half), below + above)


def testbed() -> Topology:
    """The 10 switches and 8 hosts of Bhowmik et al. 2017, V-A, a hierarchical fat tree of 4-port switches.

    The paper does not draw its wires. Here R1 and R2 are the core, R3 to R6 the aggregation and R7 to R10 the edge, in
    two pods: R7 and R8 are linked to R3 and R4, R9 and R10 to R5 and R6, each aggregation switch to both core switches.
    An edge switch has two hosts. So all four ports of every switch are in use.
    """
    below = [
        _link(low, high) for lows, highs in (((7, 8), (3, 4)), ((9, 10), (5, 6))) for low in lows for high in highs
    ]
    above = [_link(low, high) for low in (3, 4, 5, 6) for high in (1, 2)]
    return _network(10, _spread((7, 8, 9, 10), 2), below + above)


testbed.__test__ = False  # type: ignore[attr-defined]  # or pytest takes it for a test wherever it is imported


def random_graph(switches: int, hosts: int, seed: int = 0, degree: int = 3) -> Topology:
    """A random tree, with random links added until a switch has `degree` of them on average, or one to each other.

    Hosts are on random switches. Latencies between switches are from 0.1 to 5 ms.
    """
    check_size("switches", switches, 1, MAX_SWITCHES)
    check_size("hosts", hosts, 0, MAX_HOSTS)
    check_size("degree", degree, 1, MAX_DEGREE)
    draw = random.Random(seed)  # noqa: S311 (a network to try things on is no secret)
    pairs = {(draw.randrange(1, each), each): True for each in range(2, switches + 1)}  # in the order they are drawn
    while len(pairs) < min(switches * degree // 2, switches * (switches - 1) // 2):
        a, b = sorted(draw.sample(range(1, switches + 1), 2))
        pairs[a, b] = True
    links = [_link(a, b, latency=draw.randint(100, 5000) / 1e6) for a, b in pairs]
    return _network(switches, [draw.randint(1, switches) for _ in range(hosts)], links)


class Shape(NamedTuple):
    """A kind of network: how it is written, what that gives, the pattern after the colon, and what builds it."""

    usage: str
    summary: str
    pattern: str
    make: Callable[..., Topology]


SHAPES: Mapping[str, Shape] = {
    "line": Shape("line:5", "5 switches in a row, a host on each", _NUMBER, line),
    "ring": Shape("ring:6", "6 switches in a circle, a host on each", _NUMBER, ring),
    "star": Shape("star:4", "4 switches around a fifth, a host on each of the 4", _NUMBER, star),
    "single": Shape("single:8", "one switch with 8 hosts", _NUMBER, single),
    "fat-tree": Shape("fat-tree:4", "a data centre of 4-port switches: 20 of them, 16 hosts", _NUMBER, fat_tree),
    "testbed": Shape("testbed", "the fat tree of 10 switches and 8 hosts on which the papers measure", "", testbed),
    "random": Shape(
        "random:20x64@7",
        "20 switches linked at random, 64 hosts; another seed than 7 gives other links",
        rf"{_NUMBER}x{_NUMBER}(?:@{_NUMBER})?",
        random_graph,
    ),
}


def build(text: str) -> Topology:
    """The network that a text names: a shape as in `SHAPES`, or a .json or .graphml file.

    A file that has no hosts gets one on every switch, for otherwise there is nobody to send events.
    """
    if "/" in text or Path(text).suffix.lower() in (".json", ".graphml"):
        topology = load(text)
        return topology if topology.hosts else load(text, hosts_per_switch=1)
    name, colon, numbers = text.partition(":")
    if name not in SHAPES:
        raise UnknownName("topology", name, SHAPES)
    shape = SHAPES[name]
    found = re.fullmatch(shape.pattern, numbers, re.ASCII)
    if found is None or bool(colon) != bool(shape.pattern):
        raise TopologyError(f"{shown(text)} is not written like {shape.usage}", field="topology", value=text)
    return shape.make(*(int(number) for number in found.groups() if number is not None))


def _spread(switches: Sequence[int], hosts_per_switch: int) -> list[int]:
    """The switch of each host."""
    check_size("hosts per switch", hosts_per_switch, 0, MAX_PORT_NUMBER)
    check_size("hosts", len(switches) * hosts_per_switch, 0, MAX_HOSTS)
    return [switch for switch in switches for _ in range(hosts_per_switch)]


def _link(a: int, b: int, **line: float) -> Link:
    return Link(_switch(a), FREE_PORT, _switch(b), FREE_PORT, **line)


def _switch(number: int) -> SwitchId:
    return SwitchId(f"R{number}")


def _network(switches: int, hosts: Iterable[int], links: Iterable[Link]) -> Topology:
    return wire(
        [_switch(number) for number in range(1, switches + 1)],
        [Host(HostId(f"h{i}"), _switch(at), FREE_PORT, FREE_ADDRESS) for i, at in enumerate(hosts, 1)],
        list(links),
    )

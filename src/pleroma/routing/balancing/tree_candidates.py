"""Trees that events of a network may travel on, from which some are chosen by traffic.

The shortest paths from a switch are one tree, so different roots give different trees. Where several paths are equally
short, these trees all take the same one; further trees therefore avoid links that the earlier trees load most.
"""

from __future__ import annotations

import numpy as np

from pleroma.arrays.types import Floats
from pleroma.routing.balancing.cable_loads import CableLoads, pair_loads
from pleroma.routing.topology import SwitchId, Topology
from pleroma.routing.tree import Tree, cheapest_paths_tree, components, low_latency_tree, most_central

MAX_ROOTS = 32
"""Of a larger network, only the most central switches become roots."""
AVOIDING_TREES = 16
"""Trees that avoid the links with most load."""
LEAST_LATENCY_S = 1e-6
"""What a link is taken to have at least, so that it can cost more when it is busy."""


def candidate_trees(topology: Topology) -> list[Tree]:
    """Different trees, in an order that depends on the topology alone; the low-latency tree is the first."""
    central = [most_central(topology, part, MAX_ROOTS) for part in components(topology)]
    latencies = np.array([link.latency for link in topology.links])
    busy = np.zeros(len(topology.links))
    found: dict[Tree, None] = {}

    def add(tree: Tree) -> None:
        if tree not in found:
            found[tree] = None
            busy[:] += CableLoads(topology, pair_loads(topology, tree)).cables

    add(low_latency_tree(topology))
    for number in range(max(map(len, central), default=0)):
        add(_tree(topology, _roots(central, number), latencies))
    for number in range(AVOIDING_TREES):
        dear = np.maximum(latencies, LEAST_LATENCY_S) * (1.0 + busy / (busy.max(initial=0.0) or 1.0))
        add(_tree(topology, _roots(central, number), dear))
    return list(found)


def _roots(central: list[list[SwitchId]], number: int) -> list[SwitchId]:
    """One switch of each part of the network; a part with few switches begins again with its first."""
    return [switches[number % len(switches)] for switches in central]


def _tree(topology: Topology, roots: list[SwitchId], costs: Floats) -> Tree:
    return cheapest_paths_tree(topology, roots, dict(zip(topology.links, costs.tolist(), strict=True)))

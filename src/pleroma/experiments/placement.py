"""Where subscriptions are in a network, as tuning needs to know it: hosts, ports towards them, and room for rules."""

from __future__ import annotations

import numpy as np

from pleroma.experiments.simulation import homes_of
from pleroma.index.grid_kernels import Ints
from pleroma.routing import Router, Topology
from pleroma.routing.topology import SwitchId
from pleroma.tuning.network_outcome import Placement, Spread


def placement_of(network: Topology, subscriptions: int, *, rules: int | None = None, seed: int = 0) -> Placement:
    """As `simulate` places so many of them with this seed. No switch has room for more than `rules`, where given."""
    own = [network.limits.get(switch) for switch in _on_the_way(network)]
    limits = [limit if rules is None or limit is None else min(limit, rules) for limit in own]
    return Placement(homes_of(network, subscriptions, seed), spread_of(network), tuple(limits))


def spread_of(network: Topology) -> Spread:
    """For each switch on the way of events, the port towards each host."""
    return list(_on_the_way(network).values())


def _on_the_way(network: Topology) -> dict[SwitchId, Ints]:
    tree = Router(network).families[0].tree
    ports = {}
    for switch in network.switches:
        toward = [tree.toward[host.name].get(switch) for host in network.hosts]
        if None not in toward:
            ports[switch] = np.array(toward, np.int64)
    return ports

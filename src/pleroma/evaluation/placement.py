"""Where subscriptions are in a network, as tuning needs to know it: hosts, ports towards them, and room for rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.errors import WorkloadError
from pleroma.routing import Router, Topology
from pleroma.routing.topology import SwitchId

Spread = Sequence[Ints]
"""For each switch, the port behind which each host is."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Subscription i is at host `homes[i]`; `limits` has the rules of each switch of the spread, where it has some."""

    homes: Ints
    spread: Spread
    limits: tuple[int | None, ...] = ()


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


def homes_of(topology: Topology, subscriptions: int, seed: int) -> Ints:
    """By subscription, the place of its host among those of the topology, as `simulate` has it with this seed."""
    return place_randomly(topology, None, subscriptions, np.random.default_rng(seed))[1]


def place_randomly(
    topology: Topology, publishers: int | None, subscriptions: int, random: np.random.Generator
) -> tuple[Ints, Ints]:
    """The hosts that publish, and the host of each subscription."""
    hosts = len(topology.hosts)
    senders = _publishing_hosts(publishers, hosts, random)
    return senders, random.integers(0, hosts, subscriptions)


def _publishing_hosts(publishers: int | None, hosts: int, random: np.random.Generator) -> Ints:
    if not hosts:
        raise WorkloadError("the network has no host", field="topology")
    count = hosts if publishers is None else publishers
    if not 1 <= count <= hosts:
        raise WorkloadError(f"{count} publishers on {hosts} hosts", field="publishers", value=publishers)
    return np.sort(random.permutation(hosts)[:count])

"""Where subscriptions are in a network, as tuning needs to know it: hosts, ports towards them, and room for rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.errors import WorkloadError
from pleroma.routing import Topology
from pleroma.routing.topology import HostId, SwitchId
from pleroma.routing.tree import Tree, low_latency_tree

Spread = Sequence[Ints]
"""For each switch, the port behind which each host is; -1 where the switch never sends an event towards the host."""
NOWHERE_PORT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Subscription i is at host `homes[i]`; `limits` has the rules of each switch of the spread, where it has some."""

    homes: Ints
    spread: Spread
    limits: tuple[int | None, ...] = ()

    @classmethod
    def of(
        cls,
        network: Topology,
        homes: Iterable[HostId],
        sources: Iterable[HostId] | None = None,
        tree: Tree | None = None,
    ) -> Placement:
        """Subscription i is at the host `homes[i]`. Only `sources` publish; without them, every host does."""
        number = {host.name: at for at, host in enumerate(network.hosts)}
        spread = ports_towards(network, sources, tree)
        limits = tuple(network.limits.get(switch) for switch in spread)
        return cls(np.array([number[home] for home in homes], np.int64), list(spread.values()), limits)


def placement_of(network: Topology, subscriptions: int, *, rules: int | None = None, seed: int = 0) -> Placement:
    """As `simulate` places so many of them with this seed. No switch has room for more than `rules`, where given."""
    own = [network.limits.get(switch) for switch in ports_towards(network)]
    limits = [limit if rules is None or limit is None else min(limit, rules) for limit in own]
    return Placement(homes_of(network, subscriptions, seed), spread_of(network), tuple(limits))


def spread_of(network: Topology) -> Spread:
    """For each switch on the way of events, the port towards each host."""
    return list(ports_towards(network).values())


def ports_towards(
    network: Topology, sources: Iterable[HostId] | None = None, tree: Tree | None = None
) -> dict[SwitchId, Ints]:
    """By switch on the tree of events: the port towards each host, where events can come that have to go there.

    A switch sends nothing by a port behind which all sources are. If no tree is given, it is that of low latency.
    """
    tree = low_latency_tree(network) if tree is None else tree
    publishing = None if sources is None else set(sources)
    found = {}
    for switch in network.switches:
        toward = [tree.toward.get(host.name, {}).get(switch, NOWHERE_PORT) for host in network.hosts]
        entered = {
            port
            for host, port in zip(network.hosts, toward, strict=True)
            if port != NOWHERE_PORT and (publishing is None or host.name in publishing)
        }
        used = [port if entered - {port} else NOWHERE_PORT for port in toward]
        if any(port != NOWHERE_PORT for port in toward):
            found[switch] = np.array(used, np.int64)
    return found


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

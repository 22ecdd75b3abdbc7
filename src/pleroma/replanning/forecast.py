"""What a plan would do on the network as it is: the rules of every switch, and the waste at the hosts.

Nothing is estimated: regions are covered as the controller covers them, a router computes the tables of all switches on
the trees that events travel on, limits and coarser rules included, and events are forwarded by these tables. Only where
an index is grown anew in part and regions are as large as the plan lets them be, the controller may keep other members
outside of the part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pleroma.arrays.types import Ints, Marks
from pleroma.content.batch import EventBatch
from pleroma.control.state.tree_choice import policy_of
from pleroma.errors import TopologyError
from pleroma.index import EVERYTHING, ROOT, Dz, Index, Waste
from pleroma.replanning.plan_in_force import opened
from pleroma.replanning.situation import NetworkSituation, PlacedFilter
from pleroma.routing import Advertise, HostId, Registration, Router, Subscribe, SwitchId, Topology
from pleroma.routing.tree import components
from pleroma.switches.simulated.batch_forwarding import forward
from pleroma.switches.simulated.simulation import judged_at_hosts


@dataclass(frozen=True, slots=True)
class Forecast:
    at_hosts: Waste
    """Packets that come to hosts, and those of them that somebody at the host wants."""
    rules: Mapping[SwitchId, int]
    """By switch, in the order of the topology."""
    wanted_rules: Mapping[SwitchId, int]
    """The rules of switches that have room for fewer than they need, and so have coarser ones: those they need."""

    @property
    def fullest(self) -> int:
        return max(self.rules.values(), default=0)


def forecast(situation: NetworkSituation, index: Index, members: int, events: EventBatch, *, seed: int = 0) -> Forecast:
    """What an index would do with some events. Each is sent by a random one of the hosts that may publish it."""
    network = situation.topology
    if network is None:
        raise TopologyError("the network is not known", field="topology")
    policy = policy_of(situation.trees.choice)
    router = Router(network, policy=policy, families=situation.families, max_length=max(index.bits, 1))
    router.load(registrations_of(situation, network, index, members))
    origin, sent = origins(situation, network, events, seed)
    codes = opened(index).encode(events.points()[sent])
    forwarding = forward(network, router.tables, codes, codes.of_event(origin))
    number = {host.name: at for at, host in enumerate(network.hosts)}
    homes = np.array([number[each.host] for each in situation.subscriptions], np.int64)
    at_hosts, missed = judged_at_hosts(
        situation.filters, homes, events[np.flatnonzero(sent)], origin, forwarding, codes, _islands(network)
    )
    if missed:
        raise AssertionError(f"{missed} wanted events would not arrive")
    rules = {switch: len(router.tables[switch]) for switch in network.switches}
    return Forecast(at_hosts, rules, {switch: each.wanted for switch, each in router.coarsened.items()})


def registrations_of(
    situation: NetworkSituation, network: Topology, index: Index, members: int, prefix: Dz = ROOT
) -> Iterator[Registration]:
    """What the router of a controller is told of a situation under a plan whose dz begin with a prefix."""

    def covered(number: int, placed: PlacedFilter, kind: type[Registration]) -> Iterator[Registration]:
        region = opened(index).cover(placed.filter, max_members=members)
        if region:
            yield kind(f"{prefix} {kind.__name__} {number}", placed.host, region.under(prefix))

    if situation.advertisements:
        for number, each in enumerate(situation.advertisements):
            yield from covered(number, each, Advertise)
    else:
        for number, host in enumerate(network.hosts):
            yield Advertise(f"{prefix} anything {number}", host.name, EVERYTHING.under(prefix))
    for number, each in enumerate(situation.subscriptions):
        yield from covered(number, each, Subscribe)


def _islands(network: Topology) -> Ints:
    """By host: the number of the connected part of the network that it is in. What is discovered may have several."""
    number = {switch: at for at, part in enumerate(components(network)) for switch in part}
    return np.array([number[host.switch] for host in network.hosts], np.int64)


def origins(situation: NetworkSituation, network: Topology, events: EventBatch, seed: int) -> tuple[Ints, Marks]:
    """The sending host (its number) of each event that anybody may publish, and which events these are."""
    random = np.random.default_rng([seed, 3])
    number = {host.name: at for at, host in enumerate(network.hosts)}
    promised = situation.advertisements
    if not promised:
        return random.integers(0, len(network.hosts), len(events)), np.ones(len(events), np.bool_)
    by_host: dict[HostId, Marks] = {}
    for each in promised:
        may = events.matches(each.filter)
        by_host[each.host] = may | by_host[each.host] if each.host in by_host else may
    allowed = np.stack(list(by_host.values()))
    chance = np.where(allowed, random.random(allowed.shape), -1.0)
    sent: Marks = np.logical_or.reduce(allowed)
    hosts = np.array([number[host] for host in by_host], np.int64)
    return hosts[np.argmax(chance, axis=0)][sent], sent

"""Simulates a workload on a network: places subscriptions, computes rules, sends every event, judges each delivery.

The judgement is exact: for every host, the events that arrived are compared with those that the host's filters match.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.evaluation.placement import place_randomly
from pleroma.index import EVERYTHING, DzSet, Index, Waste
from pleroma.index.codes import Codes
from pleroma.index.dz import ROOT
from pleroma.matching import wanted_by
from pleroma.routing import Advertise, FlowOp, Policy, Registration, Router, Subscribe, Topology, Weights
from pleroma.routing.balancing import CableLoads, cells_by_traffic, deal, most_cells, sent_to_subscribers
from pleroma.switches.simulated.batch_forwarding import forward
from pleroma.switches.simulated.forwarding import Forwarding
from pleroma.workloads import Workload

SIMULATION_MEMBERS = 32
"""The most dz that the region of a subscription has, unless another limit is given."""
MAX_SAMPLE_EVENTS = 10_000
"""Events from which the router learns where traffic is, if tables are limited."""

Advance = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The outcome of a simulation. `missed` counts wanted events that did not arrive: it must be zero."""

    router: Router
    operations: list[FlowOp] = field(repr=False)
    forwarding: Forwarding
    waste: Waste
    missed: int
    sent: int
    """Events that were published."""
    seconds: dict[str, float] = field(compare=False)

    @property
    def rules(self) -> list[int]:
        """Rules by switch, in the topology's order."""
        return [len(self.router.tables[s]) for s in self.router.topology.switches]

    @property
    def cable_loads(self) -> CableLoads:
        """The events on each cable between switches."""
        topology = self.router.topology
        return CableLoads(topology, self.forwarding.events[: 2 * len(topology.links)].astype(np.float64))


def simulate(
    topology: Topology,
    workload: Workload,
    index: Index,
    *,
    publishers: int | None = None,
    max_members: int | None = SIMULATION_MEMBERS,
    policy: Policy | None = None,
    balanced: int = 0,
    seed: int = 0,
    advance: Advance = lambda _: None,
) -> Simulation:
    """Place subscriptions on hosts at random, and let `publishers` hosts (None: all) publish the events.

    The dz are dealt to `balanced` trees by traffic, unless that is 0: then the policy decides about trees. If tables
    are limited or dz are dealt, a part of the events tells where traffic is, and only the others are sent.
    """
    random = np.random.default_rng(seed)
    senders, homes = place_randomly(topology, publishers, len(workload.subscriptions), random)
    learned = min(MAX_SAMPLE_EVENTS, len(workload.events) // 5) if topology.limits or balanced else 0
    sample, events = workload.events[:learned], workload.events[learned:]
    origin = senders[random.integers(0, len(senders), len(events))]
    sampled_origin = senders[random.integers(0, len(senders), len(sample))]
    times = _PhaseTimes()

    with times.measure("encode"):
        codes = index.encode(events.points())
        seen = index.encode(sample.points())
    with times.measure("cover"):
        regions = []
        for wanted in workload.subscriptions:
            regions.append(index.cover(wanted, max_members=max_members))
            advance(1)
    seen_dz = seen.dz_of(range(len(seen)))
    registrations = list(_registrations(topology, senders, homes, regions))
    families = None
    if balanced:
        with times.measure("deal"):
            origins = [topology.hosts[number].name for number in seen.of_event(sampled_origin).tolist()]
            traffic = sent_to_subscribers(list(zip(seen_dz, origins, strict=True)), registrations)
            cells = cells_by_traffic(ROOT, traffic, most_cells(topology, (), balanced))
            families = deal(topology, traffic, cells, max_trees=balanced).families
    weights = Weights.of(seen_dz) if learned else None
    router = Router(topology, policy=policy, families=families, max_length=index.bits, weights=weights)
    with times.measure("route"):
        operations = router.load(registrations)
    with times.measure("forward"):
        forwarding = forward(topology, router.tables, codes, codes.of_event(origin))
    with times.measure("judge"):
        waste, missed = judged_at_hosts(workload.subscriptions, homes, events, origin, forwarding, codes)
    return Simulation(router, operations, forwarding, waste, missed, len(events), times.seconds)


def _registrations(
    topology: Topology, senders: NDArray[np.int64], homes: NDArray[np.int64], regions: Sequence[DzSet]
) -> Iterator[Registration]:
    """Every sender advertises everything; every region that is not empty is subscribed to at its home."""
    names = [host.name for host in topology.hosts]
    for sender in senders.tolist():
        yield Advertise(f"a{sender}", names[sender], EVERYTHING)
    for number, (home, region) in enumerate(zip(homes.tolist(), regions, strict=True)):
        if region:
            yield Subscribe(f"s{number}", names[home], region)


def judged_at_hosts(
    subscriptions: Sequence[Filter],
    homes: NDArray[np.int64],
    events: EventBatch,
    origin: NDArray[np.int64],
    forwarding: Forwarding,
    codes: Codes,
    islands: NDArray[np.int64] | None = None,
) -> tuple[Waste, int]:
    """Compare deliveries with wishes, host by host. A host does not want its own events; of two copies one is waste.

    `islands` has the number of the connected part that each host is in, if the network has several: a host does not
    miss what is sent elsewhere.
    """
    groups: list[list[Filter]] = [[] for _ in forwarding.delivered]
    for home, subscription in zip(homes.tolist(), subscriptions, strict=True):
        groups[home].append(subscription)
    wishes = wanted_by(groups, events)
    deliveries = wanted = missed = 0
    for host, rows in enumerate(forwarding.delivered):
        wish = wishes[host] & (origin != host)
        if islands is not None:
            wish &= islands[origin] == islands[host]
        received = rows if codes.events is None else np.unique(codes.events[rows])
        served = int(np.count_nonzero(wish[received]))
        deliveries += len(rows)
        wanted += served
        missed += int(np.count_nonzero(wish)) - served
    return Waste(deliveries, wanted), missed


class _PhaseTimes:
    """The seconds that each phase of a simulation took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[what] = time.perf_counter() - start

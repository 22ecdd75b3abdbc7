"""Waste at the hosts and rules of the fullest switch, where many subscriptions share hosts and many hosts a port.

Subscribers behind the same port need no separate rules: the table of a switch has the distinct dz of what each of its
ports demands. This says what a network would do, without building its tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.index import DzSet, Index, Waste
from pleroma.index.kernels import Ints
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.outcome import Outcome, held
from pleroma.tuning.sample import Sample

Spread = Sequence[Ints]
"""For each switch, the port behind which each host is."""


def judge_on(
    index: Index,
    subscriptions: Sequence[Filter],
    homes: Ints,
    spread: Spread,
    events: EventBatch,
    max_members: int | None = None,
) -> Outcome:
    """Subscription i is at host `homes[i]`. Every host may publish, and what it publishes comes from somewhere else."""
    covers = [index.cover(each, max_members=max_members) for each in subscriptions]
    hosts = _joined(covers, homes.tolist())
    wanted = GridEvaluator(Sample.of(events, subscriptions).grouped(homes), 1).wanted
    deliveries = held(index.encode(events.points()), list(hosts.values()))
    if deliveries < wanted:
        raise AssertionError(f"{wanted} deliveries are wanted and only {deliveries} made")
    return Outcome(Waste(deliveries, wanted), max(_rules(hosts, ports) for ports in spread))


def _joined(parts: Sequence[DzSet], groups: Sequence[int]) -> dict[int, DzSet]:
    members: dict[int, list[DzSet]] = {}
    for part, group in zip(parts, groups, strict=True):
        members.setdefault(group, []).append(part)
    return {group: DzSet(dz for part in parts for dz in part) for group, parts in members.items()}


def _rules(hosts: dict[int, DzSet], ports: Ints) -> int:
    demands = _joined(list(hosts.values()), [int(ports[host]) for host in hosts])
    return len({dz for demand in demands.values() for dz in demand})

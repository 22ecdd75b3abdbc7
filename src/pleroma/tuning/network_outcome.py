"""Waste at the hosts and rules of the fullest switch, where many subscriptions share hosts and many hosts a port.

Subscribers behind the same port need no separate rules: the table of a switch has the distinct dz of what each of its
ports demands. This says what a network would do, without building its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.index import DzSet, Index, Waste
from pleroma.index.codes import Codes
from pleroma.index.kernels import Ints
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.outcome import Outcome, held
from pleroma.tuning.sample import Sample
from pleroma.tuning.shared_dz import OWNERS, SharedDz

Spread = Sequence[Ints]
"""For each switch, the port behind which each host is."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Subscription i is at host `homes[i]`; `limits` has the rules of each switch of the spread, where it has some."""

    homes: Ints
    spread: Spread
    limits: tuple[int | None, ...] = ()

    def judge(
        self, index: Index, subscriptions: Sequence[Filter], events: EventBatch, max_members: int | None = None
    ) -> Outcome:
        return judge_on(index, subscriptions, self.homes, self.spread, events, max_members, self.limits)


def judge_on(
    index: Index,
    subscriptions: Sequence[Filter],
    homes: Ints,
    spread: Spread,
    events: EventBatch,
    max_members: int | None = None,
    limits: Sequence[int | None] = (),
) -> Outcome:
    """Subscription i is at host `homes[i]`. Every host may publish, and what it publishes comes from somewhere else."""
    covers = [index.cover(each, max_members=max_members) for each in subscriptions]
    wanted = GridEvaluator(Sample.of(events, subscriptions).grouped(homes), 1).wanted
    return outcome_on(covers, index.encode(events.points()), wanted, homes, spread, limits)


def outcome_on(
    covers: Sequence[DzSet],
    codes: Codes,
    wanted: int,
    homes: Ints,
    spread: Spread,
    limits: Sequence[int | None] = (),
) -> Outcome:
    """The same of covers and codes that are known, with the deliveries that are wanted."""
    if len(spread[0]) <= OWNERS:
        shared = SharedDz(covers, homes.tolist())
        deliveries, rules = shared.deliveries(codes), [shared.rules(ports) for ports in spread]
    else:
        hosts = _joined(covers, homes.tolist())
        deliveries, rules = held(codes, list(hosts.values())), [_rules(hosts, ports) for ports in spread]
    if deliveries < wanted:
        raise AssertionError(f"{wanted} deliveries are wanted and only {deliveries} made")
    beyond = [n - limit for n, limit in zip(rules, limits, strict=False) if limit is not None]
    return Outcome(Waste(deliveries, wanted), max(rules), max(0, *beyond, 0))


def _joined(parts: Sequence[DzSet], groups: Sequence[int]) -> dict[int, DzSet]:
    members: dict[int, list[DzSet]] = {}
    for part, group in zip(parts, groups, strict=True):
        members.setdefault(group, []).append(part)
    return {group: DzSet(dz for part in parts for dz in part) for group, parts in members.items()}


def _rules(hosts: dict[int, DzSet], ports: Ints) -> int:
    demands = _joined(list(hosts.values()), [int(ports[host]) for host in hosts])
    return len({dz for demand in demands.values() for dz in demand})

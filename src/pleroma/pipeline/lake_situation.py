"""The situation of a schema at a moment, from a lake: the network with what its switches have left, and who is where.

A lake that an earlier version began lacks the network, or who publishes. Then plans are judged with what is known, and
`shortcomings` says what that means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from pleroma.errors import DamagedFile, LakeError
from pleroma.index import Dz, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow
from pleroma.pipeline.lake.moments import utc
from pleroma.replanning.forecast import registrations_of
from pleroma.replanning.situation import NetworkSituation, PlacedFilter, limits_that_count
from pleroma.routing import HostId, Router, SwitchId, Topology


def situation_of(lake: Lake, name: str, moment: datetime | None = None, *, star: bool = False) -> NetworkSituation:
    """The situation of a schema at a moment, or now. On a star every subscription has a port of its own."""
    at = utc(moment or datetime.now(UTC))
    landed = None if star else lake.topology(at)
    if landed is None:
        return NetworkSituation.placed(lake.schema(name), _placed(lake.subscriptions(name, at)), None, None)
    network = limits_that_count(landed.topology, landed.rooms)
    found = _situation(lake, name, at, network)
    used = _rules_of_others(lake, found, at, network)
    return found.on(limits_that_count(landed.topology, landed.rooms, used))


def last_subscribed(lake: Lake, name: str, start: datetime | None, end: datetime | None) -> datetime:
    """The last moment of a period, or of all time, at which anybody was subscribed. LakeError if nobody was."""
    until = datetime.now(UTC) if end is None else utc(end)
    moment = lake.subscription_history(name, start, until).last_in_force(until)
    if moment is None:
        known = [each.since for each in lake.subscription_history(name).entries]
        others = f"; the first subscription is of {min(known):%Y-%m-%d %H:%M:%S}" if known else ""
        raise LakeError(f"nobody was subscribed to {name} in this time{others}", field="subscriptions", value=name)
    return moment


def shortcomings(situation: NetworkSituation) -> list[str]:
    """What is not known of the network of a situation, and how plans are judged therefore: a line each."""
    if situation.topology is None:
        return ["the lake does not know the network: each subscription counts as if it had a port of its own"]
    if not situation.advertisements:
        return ["the lake does not know who publishes: every host counts as one that does"]
    return []


def _situation(lake: Lake, name: str, at: datetime, network: Topology) -> NetworkSituation:
    promised = _placed(lake.advertisements(name, at)) or None
    return NetworkSituation.placed(lake.schema(name), _placed(lake.subscriptions(name, at)), network, promised)


def _placed(rows: Iterable[RegistrationRow]) -> list[PlacedFilter]:
    return [PlacedFilter(HostId(row.host), row.filter) for row in rows]


class _Sharing(NamedTuple):
    """A schema whose rules are in the same tables as those of others."""

    situation: NetworkSituation
    plan: IndexPlan


def _rules_of_others(lake: Lake, situation: NetworkSituation, at: datetime, network: Topology) -> dict[SwitchId, int]:
    """By switch: the rules that other schemas use. They share the tables, which are computed for all schemas at once.

    Only where rules are limited does it matter, and only there is it found out.
    """
    mine = situation.schema.name
    names = [name for name in lake.schemas() if name != mine] if network.limits else []
    others = [found for name in names for found in _sharing(lake, name, at, network)]
    if not others:
        return {}
    everyone = [*_with_plan(lake, situation, at), *others]
    bits = len(everyone).bit_length()  # of a prefix that tells the rules of a schema from those of others
    router = Router(network, max_length=bits + max(each.plan.index.bits for each in everyone))
    others_prefixes = []
    for number, (each, plan) in enumerate(everyone):
        prefix = Dz(1 << bits | number)
        others_prefixes += [prefix] if each.schema.name != mine else []
        router.load(registrations_of(each, network, plan.index, plan.members, prefix))
    return {
        switch: sum(any(prefix.covers(flow.dz) for prefix in others_prefixes) for flow in table)
        for switch, table in router.tables.items()
    }


def _sharing(lake: Lake, name: str, at: datetime, network: Topology) -> Iterator[_Sharing]:
    """Another schema, if it has rules: whatever cannot be read of it does not matter for the one that is looked at."""
    with suppress(DamagedFile):
        found = _situation(lake, name, at, network)
        if found.subscriptions:
            yield from _with_plan(lake, found, at)


def _with_plan(lake: Lake, situation: NetworkSituation, at: datetime) -> Iterator[_Sharing]:
    """A schema with the plan that was in force, if there was one and the schema has not changed since."""
    plans = [each.plan for each in lake.plans(situation.schema.name) if each.since <= at]
    if plans and plans[-1].schema == situation.schema:
        yield _Sharing(situation, plans[-1])

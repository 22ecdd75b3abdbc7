"""Proposals of a better plan, judged on the network as it is by events that the plan was not made from.

A plan has to be better by a margin, because every change of plans costs something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pleroma.content.batch import EventBatch
from pleroma.evaluation.judge import judge
from pleroma.index import Index, Waste
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.forecast import forecast
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.situation import NetworkSituation
from pleroma.routing import SwitchId
from pleroma.selection.advice import AdviceQuestion, advise_from
from pleroma.selection.traffic_summary import TrafficSummary


@dataclass(frozen=True, slots=True)
class Proposal:
    """The best plan found, and what it and the plan in force do with the same held-out events."""

    technique: str
    index: Index
    members: int
    """The limit of dz per registration that the plan was judged with."""
    before: Waste
    """The waste of the plan in force: at the hosts, or at subscriptions where the network is not known."""
    after: Waste
    rules: int
    """Of the fullest switch."""
    rules_by_switch: Mapping[SwitchId, int]
    """Empty where the network is not known."""


def propose(
    in_force: PlanInForce, gathered: TrafficSummary, situation: NetworkSituation, settings: WatchSettings
) -> Proposal:
    """The tree learned for gathered traffic in a situation; in a comparison, the best plan of any technique."""
    question = AdviceQuestion(
        situation.filters,
        settings.bits or in_force.index.bits,
        rules=settings.rules,
        compare=settings.compare,
        selections=settings.selections,
        splits=settings.splits,
        seed=settings.seed,
        placement=situation.placement,
    )
    best = advise_from(gathered, question)[0]
    before = outlook(situation, in_force.index, in_force.members, gathered.judging)
    after = outlook(situation, best.index, best.members, gathered.judging)
    return Proposal(best.technique, best.index, best.members, before.waste, after.waste, after.rules, after.by_switch)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan would do: waste at the hosts and rules of every switch, or those of a star."""

    waste: Waste
    rules: int
    by_switch: Mapping[SwitchId, int]


def outlook(situation: NetworkSituation, index: Index, members: int, events: EventBatch) -> Outlook:
    """What an index would do with some events in a situation."""
    if situation.topology is None:
        on_star = judge(index, situation.filters, events, members)
        return Outlook(on_star.waste, on_star.rules, {})
    there = forecast(situation, index, members, events)
    return Outlook(there.at_hosts, there.fullest, there.rules)


def is_better(before: Waste, after: Waste, settings: WatchSettings) -> bool:
    """Whether a plan saves at least the margin of wasted deliveries, and lowers their share by at least the floor."""
    saved = before.wasted - after.wasted
    return saved > 0 and saved >= settings.margin * before.wasted and before.rate - after.rate >= settings.floor

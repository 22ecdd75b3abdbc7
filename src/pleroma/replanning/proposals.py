"""Proposals of a better plan, judged by events that the plan was not made from.

A plan has to be better by a margin, because every change of plans costs something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.content import Filter
from pleroma.evaluation.judge import judge
from pleroma.index import Index, Waste
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.selection.advice import AdviceQuestion, advise_from
from pleroma.selection.traffic_summary import TrafficSummary


@dataclass(frozen=True, slots=True)
class Proposal:
    """The best plan found, and what it and the plan in force do with the same held-out events."""

    technique: str
    index: Index
    before: Waste
    """The waste of the plan in force."""
    after: Waste
    rules: int


def propose(
    in_force: PlanInForce, gathered: TrafficSummary, subscriptions: Sequence[Filter], settings: WatchSettings
) -> Proposal:
    """The best plan that the techniques and the learned tree find for gathered traffic."""
    question = AdviceQuestion(
        subscriptions,
        settings.bits or in_force.index.bits,
        max_members=in_force.members,
        rules=settings.rules,
        selections=settings.selections,
        splits=settings.splits,
        seed=settings.seed,
    )
    best = advise_from(gathered, question)[0]
    before = judge(in_force.index, subscriptions, gathered.judging, in_force.members)
    return Proposal(best.technique, best.index, before.waste, best.outcome.waste, best.outcome.rules)


def is_better(before: Waste, after: Waste, settings: WatchSettings) -> bool:
    """Whether a plan saves at least the margin of wasted deliveries, and lowers their share by at least the floor."""
    saved = before.wasted - after.wasted
    return saved > 0 and saved >= settings.margin * before.wasted and before.rate - after.rate >= settings.floor

"""The counterfactual: what the best plan for some traffic would have saved, judged by events it was not made from.

Both plans are judged on the network that the lake knows, by the waste at its hosts and the rules of its switches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pleroma.pipeline.lake.landed import LandedPlan
    from pleroma.replanning.situation import NetworkSituation
    from pleroma.routing import SwitchId
    from pleroma.selection.traffic_summary import TrafficSummary


@dataclass(frozen=True, slots=True)
class BestPlanQuestion:
    """What the best plan may use, and where plans are judged."""

    bits: int | None = None
    """As many as the plan in force has, if not given."""
    rules: int | None = None
    star: bool = False
    """Judge plans on one switch with a port for each subscription, as the papers do."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The best plan found and a plan that was in force (`plan_...`), on the same held-out events."""

    technique: str
    bits: Mapping[str, int]
    members: int
    rules: int
    """Of the fullest switch."""
    rules_by_switch: Mapping[SwitchId, int]
    """Empty if every subscription has a port of its own."""
    waste: float
    wasted: int
    plan: int
    plan_rules: int
    plan_waste: float
    plan_wasted: int
    events: int
    waste_at: Literal["hosts", "subscriptions"]
    """What all these figures of waste are."""
    unknown: tuple[str, ...] = ()
    """What the lake does not know of its network, and how plans were judged therefore."""

    @property
    def share_saved(self) -> float:
        """The share of wasted deliveries that the best plan would have saved; below 0 if it is worse."""
        return 1 - self.wasted / self.plan_wasted if self.plan_wasted else 0.0

    def to_json(self) -> dict[str, Any]:
        own = asdict(self) | {"bits": dict(self.bits), "rules_by_switch": dict(self.rules_by_switch)}
        return own | {"unknown": list(self.unknown), "saved": self.share_saved}


def compare_with_best(
    gathered: TrafficSummary,
    situation: NetworkSituation,
    plan: LandedPlan,
    question: BestPlanQuestion,
) -> Counterfactual:
    """Compare a plan that was in force with the best plan for what was gathered, in a situation with subscriptions."""
    from pleroma.pipeline.lake_situation import shortcomings
    from pleroma.replanning.proposals import outlook
    from pleroma.selection.advice import AdviceQuestion, advise_from

    wanted = situation.filters
    bits = plan.plan.index.bits if question.bits is None else question.bits
    asked = AdviceQuestion(wanted, bits, rules=question.rules, seed=question.seed, placement=situation.placement)
    best = advise_from(gathered, asked)[0]
    before = outlook(situation, plan.plan.index, plan.members, gathered.judging)
    after = outlook(situation, best.index, best.members, gathered.judging)
    return Counterfactual(
        technique=best.technique,
        bits=best.bits,
        members=best.members,
        rules=after.rules,
        rules_by_switch=after.by_switch,
        waste=after.waste.rate,
        wasted=after.waste.wasted,
        plan=plan.epoch,
        plan_rules=before.rules,
        plan_waste=before.waste.rate,
        plan_wasted=before.waste.wasted,
        events=len(gathered.judging),
        waste_at="subscriptions" if situation.topology is None else "hosts",
        unknown=() if question.star else tuple(shortcomings(situation)),
    )

"""The counterfactual: what the best plan for some traffic would have saved, judged by events it was not made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from pleroma.pipeline.audit.tally import InForce
    from pleroma.pipeline.lake.landed import LandedPlan


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The best plan found and a plan that was in force (`plan_...`), on the same held-out events."""

    technique: str
    bits: Mapping[str, int]
    rules: int
    waste: float
    wasted: int
    plan: int
    plan_rules: int
    plan_waste: float
    plan_wasted: int
    events: int

    @property
    def share_saved(self) -> float:
        """The share of wasted deliveries that the best plan would have saved; below 0 if it is worse."""
        return 1 - self.wasted / self.plan_wasted if self.plan_wasted else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"bits": dict(self.bits), "saved": self.share_saved}


def compare_with_best(
    events: DataFrame,
    held: InForce,
    plan: LandedPlan,
    moment: datetime,
    *,
    bits: int | None = None,
    rules: int | None = None,
    seed: int = 0,
) -> Counterfactual | None:
    """Compare a plan that was in force with the best plan for some events and the subscriptions of a moment.

    The best plan has as many bits and dz per subscription as the other, unless told. None if there are no
    subscriptions.
    """
    from pleroma.evaluation.judge import judge
    from pleroma.pipeline.lake.lake_tables import EventColumns
    from pleroma.pipeline.passes.summary_pass import gather
    from pleroma.selection.advice import AdviceQuestion, advise_from

    wanted = [row.filter for row in held.history.in_force(moment)]
    if not wanted:
        return None
    gathered = gather(events, held.schema, wanted, numbers=EventColumns.of(held.schema).id, seed=seed)
    members = plan.members if rules is None else None
    given = plan.plan.index.bits if bits is None else bits
    best = advise_from(gathered, AdviceQuestion(wanted, given, max_members=members, rules=rules, seed=seed))[0]
    before = judge(plan.plan.index, wanted, gathered.judging, plan.members)
    return Counterfactual(
        technique=best.technique,
        bits=best.bits,
        rules=best.outcome.rules,
        waste=best.outcome.waste.rate,
        wasted=best.outcome.waste.wasted,
        plan=plan.epoch,
        plan_rules=before.rules,
        plan_waste=before.waste.rate,
        plan_wasted=before.waste.wasted,
        events=len(gathered.judging),
    )

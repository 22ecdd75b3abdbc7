"""What a controller expects of a plan, beside what was predicted when the plan was made, and why the two differ.

A plan is tuned for some events and subscriptions, maybe on another network. The controller forecasts what the plan
would do with its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pleroma.cli.plan_file import StoredPlan
from pleroma.errors import ControllerAway, RequestRefused

if TYPE_CHECKING:
    from pleroma.client.blocking_api import BlockingApi

NOTEWORTHY_DIFFERENCE = 0.02
"""If the predicted and the expected share of waste differ by more, reasons are given."""


@dataclass(frozen=True, slots=True)
class PlanExpectation:
    stored: StoredPlan
    forecast: Mapping[str, Any] | None
    """The answer of `plan/forecast`; None if there is none."""
    silence: str = ""
    """Why there is no forecast."""

    @classmethod
    def ask(cls, remote: BlockingApi, path: str, stored: StoredPlan) -> PlanExpectation:
        """Of the controller's plan at a path. A controller that cannot tell is no reason not to go on."""
        members = stored.plan.members if stored.has_members else None
        try:
            body = {"index": stored.plan.index.to_json(), "members": members}
            return cls(stored, remote.ask("POST", f"{path}/forecast", body))
        except (RequestRefused, ControllerAway) as error:
            return cls(stored, None, error.reason)

    @property
    def predicted(self) -> float | None:
        """The predicted share of waste, at hosts or at subscriptions."""
        figures = self.stored.predicted
        return figures.get("waste_at_hosts", figures.get("waste_at_subscriptions"))

    def lines(self) -> list[str]:
        said = [f"predicted: {self.stored.described()}"] if self.stored.predicted else []
        if self.forecast is None:
            return [*said, f"expected: not known, {self.silence}"]
        planned, now = self.forecast["planned"], self.forecast["in_force"]
        there = f"{planned['rules']:,} rules, {self.forecast['subscriptions']:,} subscriptions"
        before = f"by the plan in force {now['waste_at_hosts']:.1%}, {now['rules']:,} rules"
        said.append(f"expected: {planned['waste_at_hosts']:.1%} waste at hosts, {there}; {before}")
        differs = self.predicted is not None and abs(planned["waste_at_hosts"] - self.predicted) > NOTEWORTHY_DIFFERENCE
        return [*said, f"they differ: {'; '.join(self._reasons(self.forecast))}"] if differs else said

    def _reasons(self, forecast: Mapping[str, Any]) -> list[str]:
        """Why another waste is expected than was predicted, as far as can be told."""
        figures, there = self.stored.predicted, forecast["subscriptions"]
        found = []
        if "waste_at_hosts" not in figures:
            found.append("the prediction is for one switch with a port for each subscription")
        if (tuned_for := figures.get("subscriptions")) is not None and tuned_for != there:
            found.append(f"it is for {tuned_for:,} subscriptions, and there are {there:,}")
        if not self.stored.has_members:
            found.append("the plan has no number of cells a registration, and that of the plan in force stays")
        if not forecast["events"]:
            found.append("nothing was sampled yet, so the controller imagines events")
        return found or ["the controller's events or hosts are others than the plan was made for"]

    def figures(self) -> dict[str, Any]:
        told: dict[str, Any] = {"predicted": dict(self.stored.predicted)}
        if self.forecast is not None:
            told["expected"] = dict(self.forecast)
        return told

"""Plans as files: `tune --plan` writes one, with what the tuner predicts of it, and `plan apply` reads it.

The prediction stands beside the plan, under the same checksum. Whoever wants nothing but the plan reads the file as a
plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pleroma.errors import PlanError
from pleroma.index import IndexPlan


@dataclass(frozen=True, slots=True)
class StoredPlan:
    plan: IndexPlan
    predicted: Mapping[str, float] = field(default_factory=dict)
    """A share of wasted deliveries, `waste_at_hosts` or `waste_at_subscriptions`; `rules` of the fullest switch; and
    the number of `subscriptions` that both are for. Empty if the file has no prediction.
    """
    has_members: bool = True
    """False if the file was written by an earlier version, whose plans had no limit of dz per registration."""

    @classmethod
    def read(cls, path: Path) -> StoredPlan:
        try:
            text = path.read_text(encoding="utf-8")
            plan = IndexPlan.loads(text)
        except UnicodeDecodeError:
            raise PlanError("is no plan", field=str(path)) from None
        data = json.loads(text)
        given = data.get("predicted")
        numbers = (
            {name: value for name, value in given.items() if isinstance(value, int | float)}
            if isinstance(given, dict)
            else {}
        )
        return cls(plan, numbers, "members" in data)

    def write(self, path: Path) -> None:
        beside = {"predicted": dict(self.predicted)} if self.predicted else {}
        path.write_text(self.plan.dumps(beside) + "\n", encoding="utf-8")

    def described(self) -> str:
        """The prediction in a line."""
        return prediction_in_words(self.predicted)


def prediction_in_words(predicted: Mapping[str, float | None]) -> str:
    names = {"waste_at_hosts": "waste at hosts", "waste_at_subscriptions": "waste at subscriptions"}
    given = {name: value for name, value in predicted.items() if value is not None}
    said = [f"{given[name]:.1%} {text}" for name, text in names.items() if name in given]
    said += [f"{given[name]:,} {name}" for name in ("rules", "subscriptions") if name in given]
    return ", ".join(said)

"""Where a plan came from: when it was asked for, by whom, and what was predicted of it.

It stands in the command that asked for the plan, so it is there after a restart, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    at: str
    """The moment in ISO form, in UTC."""
    by: str | None
    """The principal; None if the controller found the plan itself."""
    predicted: Mapping[str, float] = field(default_factory=dict)
    """A share of wasted deliveries (`waste_at_hosts`, `waste_at_subscriptions`), `rules` of the fullest switch."""

    @classmethod
    def now(cls, by: str | None, predicted: Mapping[str, float]) -> Self:
        """The origin of a plan that is asked for now."""
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), by, predicted)

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "by": self.by, "predicted": dict(self.predicted)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlanOrigin:
        return cls(data["at"], data["by"], dict(data["predicted"]))

    @classmethod
    def if_given(cls, data: Mapping[str, Any]) -> PlanOrigin | None:
        """The one in a command or in a snapshot; None for plans of which nothing is known."""
        return None if data.get("origin") is None else cls.from_json(data["origin"])

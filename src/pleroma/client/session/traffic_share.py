"""What a subscription brings against what it wants, as the controller tells by the events sampled of late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

POOR_RATIO = 2.0
"""A cover is poor if it brings at least so many times what is wanted,"""
POOR_PART = 0.05
"""and at least this part of all events."""


@dataclass(frozen=True, slots=True)
class TrafficShare:
    delivered: float
    """Which part of all events the network brings because of the subscription."""
    wanted: float
    """Which part of all events the subscription matches."""
    events: int
    """How many events were sampled."""

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self | None:
        """The share in an answer of the controller; None where nothing was sampled."""
        given = answer.get("share")
        return cls(given["delivered"], given["wanted"], given["events"]) if isinstance(given, Mapping) else None

    @property
    def is_poor(self) -> bool:
        return self.delivered >= max(POOR_RATIO * self.wanted, POOR_PART)

    def __str__(self) -> str:
        return f"{self.delivered:.1%} of the traffic comes, {self.wanted:.1%} is wanted"

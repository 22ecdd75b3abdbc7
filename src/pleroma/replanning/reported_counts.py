"""What subscribers reported to the controller: packets that they delivered to programs, and wasted packets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportedCounts:
    """A client counts each unwanted packet once, whichever of its subscriptions' covers brought it."""

    delivered: int = 0
    wasted: int = 0

    def __add__(self, other: ReportedCounts) -> ReportedCounts:
        return ReportedCounts(self.delivered + other.delivered, self.wasted + other.wasted)

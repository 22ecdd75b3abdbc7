"""What subscribers reported to the controller: events that they delivered to programs, and packets that came."""

from __future__ import annotations

from dataclasses import dataclass

PACKET_COUNTERS = ("delivered", "wanted", "wasted")
"""The fields of `ReportedCounts`, which are columns of the lake's table of reports."""


@dataclass(frozen=True, slots=True)
class ReportedCounts:
    """`delivered` counts an event at each subscription, `wanted` and `wasted` count each packet at a client once.

    A packet is charged to one of the subscriptions that want it, or whose cover brought it in vain.
    """

    delivered: int = 0
    wanted: int = 0
    wasted: int = 0

    def __add__(self, other: ReportedCounts) -> ReportedCounts:
        return ReportedCounts(self.delivered + other.delivered, self.wanted + other.wanted, self.wasted + other.wasted)

    @property
    def waste_at_hosts(self) -> float:
        """The part of the packets that nobody at the host wanted; 0 if none came."""
        return self.wasted / max(self.wanted + self.wasted, 1)


def reported_counts(delivered: int, wanted: int | None, wasted: int) -> ReportedCounts:
    """What a row of the lake says. Where packets were not counted, they are as many as events were delivered."""
    return ReportedCounts(delivered, delivered if wanted is None else wanted, wasted)

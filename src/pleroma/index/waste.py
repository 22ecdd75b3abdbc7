"""The reference evaluator: what an index delivers, slow and obvious, one event and one filter at a time.

Everything faster is checked against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.content import Event, Filter
from pleroma.index.plan import Index


@dataclass(frozen=True, slots=True)
class Waste:
    """Deliveries made, how many of them were wanted, and so how many were not."""

    deliveries: int
    wanted: int

    @property
    def wasted(self) -> int:
        return self.deliveries - self.wanted

    @property
    def rate(self) -> float:
        """The false-positive rate, wasted / received; 0 when nothing was delivered."""
        return self.wasted / self.deliveries if self.deliveries else 0.0


def evaluate(
    index: Index,
    filters: Sequence[Filter],
    events: Sequence[Event],
    *,
    max_length: int | None = None,
    max_members: int | None = None,
) -> Waste:
    """Every filter its own subscriber. Raises AssertionError if a wanted event would be missed.

    An event sent under several dz may be delivered more than once; the first time is the one that was wanted.
    """
    covers = [index.cover(f, max_length=max_length, max_members=max_members) for f in filters]
    deliveries = wanted = 0
    for event in events:
        sent = index.dzs(event)
        for subscription, cover in zip(filters, covers, strict=True):
            delivered, matched = sum(map(cover.covers, sent)), subscription.matches(event)
            if matched and not delivered:
                raise AssertionError(f"{event} matches {subscription} but none of {sent} is in {cover}")
            deliveries += delivered
            wanted += matched
    return Waste(deliveries, wanted)

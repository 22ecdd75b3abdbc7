"""What the controller has not heard yet of what was counted here.

Reports are increments, since several clients may share a token. Nothing counts as reported until the controller has
accepted it; what a closed publisher still owed goes into the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pleroma.client.session.inbox import SubscriptionInfo
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscription import Subscription


@dataclass(frozen=True, slots=True)
class CounterReport:
    published: dict[Publisher, int]
    """The counter of each publisher as it was when the report was written."""
    received: dict[Subscription, SubscriptionInfo]
    owed: int
    body: dict[str, Any]


class UnreportedCounters:
    def __init__(self) -> None:
        self._published: dict[Publisher, int] = {}
        self._received: dict[Subscription, SubscriptionInfo] = {}
        self._owed = 0

    def add(self, member: Publisher | Subscription) -> None:
        if isinstance(member, Publisher):
            self._published[member] = 0
        else:
            self._received[member] = SubscriptionInfo()

    def remove(self, member: Publisher | Subscription) -> None:
        if isinstance(member, Publisher):
            self._owed += member.info.published - self._published.pop(member)
        else:
            del self._received[member]

    def write(self) -> CounterReport | None:
        """What was added since the last report that was accepted; None if nothing was."""
        published = {each: each.info.published for each in self._published}
        received = {each: each.info.copy() for each in self._received if each.id is not None}
        added = {str(each.id): now.since(self._received[each]) for each, now in received.items()}
        added = {each: counted for each, counted in added.items() if any(counted.values())}
        total = self._owed + sum(published.values()) - sum(self._published.values())
        if not total and not added:
            return None
        return CounterReport(published, received, self._owed, {"subscriptions": added, "published": total})

    def accepted(self, report: CounterReport) -> None:
        self._owed -= report.owed
        for publisher, now in report.published.items():
            if publisher in self._published:
                self._published[publisher] = now
            else:  # closed meanwhile, when all that it had published was put on the bill
                self._owed -= now
        for subscription, info in report.received.items():
            if subscription in self._received:
                self._received[subscription] = info

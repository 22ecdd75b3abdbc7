"""Counters that the controller has not been told of yet.

A report has increments, since several clients may share a token. Nothing counts as reported until the controller has
accepted the report. What a closed publisher had not reported is added to the next report.
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
    """Events of closed publishers in this report."""
    body: dict[str, Any]
    """Of the request that reports it."""


class UnreportedCounters:
    """Remembers the counters of publishers and subscriptions as they were in the last report that was accepted."""

    def __init__(self) -> None:
        self._published: dict[Publisher, int] = {}
        self._received: dict[Subscription, SubscriptionInfo] = {}
        self._owed = 0
        """Events of closed publishers that are not reported yet."""

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
        """A report of all that was counted since the last accepted one; None if nothing was."""
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
            else:  # closed since the report was written: `remove` has added these events to those owed
                self._owed -= now
        for subscription, info in report.received.items():
            if subscription in self._received:
                self._received[subscription] = info

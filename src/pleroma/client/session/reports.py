"""Counters that the controller has not been told of yet.

A report has increments, since several clients may share a token. Nothing counts as reported until the controller has
accepted the report. A report that got no answer is sent again as it was, under its number, and counts once. What a
closed publisher had not reported is added to the next report.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from pleroma.client.session.inbox import SubscriptionInfo
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscription import Subscription
from pleroma.wire.api_terms import MAX_REPORTED_SUBSCRIPTIONS


@dataclass(frozen=True, slots=True)
class CounterReport:
    published: dict[Publisher, int]
    """The counter of each publisher as it was when the report was written."""
    before: dict[Publisher, int]
    """The same counters as they were in the report before."""
    received: dict[Subscription, SubscriptionInfo]
    owed: int
    """Events of closed publishers in this report."""
    body: dict[str, Any]
    """Of the request that reports it."""

    @property
    def is_full(self) -> bool:
        """Whether there may be more subscriptions to report about."""
        return len(self.received) == MAX_REPORTED_SUBSCRIPTIONS


class UnreportedCounters:
    """Remembers the counters of publishers and subscriptions as they were in the last report that was accepted."""

    def __init__(self) -> None:
        self._published: dict[Publisher, int] = {}
        self._received: dict[Subscription, SubscriptionInfo] = {}
        self._owed = 0
        """Events of closed publishers that are not reported yet."""
        self._sender = secrets.token_hex(8)
        self._next_number = 0
        self._sending: CounterReport | None = None
        """The report that was written last, until the controller has answered."""

    @property
    def is_sending(self) -> bool:
        """Whether there is a report that the controller has not answered yet."""
        return self._sending is not None

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
        """The report that nobody has answered yet, or one of all that was counted since; None if nothing was."""
        if self._sending is not None:
            return self._sending
        published = {each: each.info.published for each in self._published}
        received: dict[Subscription, SubscriptionInfo] = {}
        added: dict[str, dict[str, int]] = {}
        for each, before in self._received.items():
            counted = each.info.since(before)
            if each.id is not None and any(counted.values()):
                received[each], added[each.id] = each.info.copy(), counted
            if len(added) == MAX_REPORTED_SUBSCRIPTIONS:
                break
        total = self._owed + sum(published.values()) - sum(self._published.values())
        if not total and not added:
            return None
        batch = {"sender": self._sender, "number": self._next_number}
        body = {"subscriptions": added, "published": total, "batch": batch}
        self._next_number += 1
        self._sending = CounterReport(published, dict(self._published), received, self._owed, body)
        return self._sending

    def refused(self, report: CounterReport) -> None:
        """The controller added nothing of a report: what was counted is part of the next one."""
        if report is self._sending:
            self._sending = None

    def accepted(self, report: CounterReport) -> None:
        if report is not self._sending:
            return  # it was sent twice at once, and accepted already
        self._sending = None
        self._owed -= report.owed
        for publisher, now in report.published.items():
            if publisher in self._published:
                self._published[publisher] = now
            else:  # closed since the report was written: `remove` has added these events to those owed
                self._owed -= now - report.before[publisher]
        for subscription, info in report.received.items():
            if subscription in self._received:
                self._received[subscription] = info

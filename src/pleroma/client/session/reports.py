"""Counters that the controller has not been told of yet.

A report has increments, since several clients may share a token. Nothing counts as reported until the controller has
accepted the report. A report that got no answer is sent again as it was, under its number, and counts once. What a
closed publisher had not reported is part of the next report.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pleroma.client.session.inbox import SubscriptionInfo
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscription import Subscription
from pleroma.wire.api_terms import MAX_REPORTED_SUBSCRIPTIONS


@dataclass(frozen=True, slots=True)
class CounterReport:
    received: dict[Subscription, SubscriptionInfo]
    """The counters of each subscription as they were when the report was written."""
    body: dict[str, Any]
    """Of the request that reports it."""

    @property
    def is_full(self) -> bool:
        """Whether there may be more subscriptions to report about."""
        return len(self.received) == MAX_REPORTED_SUBSCRIPTIONS


class UnreportedCounters:
    """Remembers what was in the reports that were accepted: of each subscription, and of the client as a whole.

    `overrun` tells how many datagrams the kernel dropped.
    """

    def __init__(self, overrun: Callable[[], int] = lambda: 0) -> None:
        self._overrun = overrun
        self._publishers: dict[Publisher, None] = {}
        self._of_closed = Counter[str]()
        """By schema: events that publishers published that are closed now."""
        self._reported = Counter[str]()
        """By schema: published events in reports that were accepted."""
        self._lost_by_closed = Counter[str]()
        """By counter: what publishers and subscriptions lost that are closed now."""
        self._reported_losses = Counter[str]()
        """By counter: what was lost of the client as a whole, in reports that were accepted."""
        self._received: dict[Subscription, SubscriptionInfo] = {}
        """Those that were reported last come last."""
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
            self._publishers[member] = None
        else:
            self._received[member] = SubscriptionInfo()

    def remove(self, member: Publisher | Subscription) -> None:
        if isinstance(member, Publisher):
            del self._publishers[member]
            self._of_closed[member.channel.schema.name] += member.info.published
            self._lost_by_closed["unsent"] += member.info.unsent
        else:
            del self._received[member]
            self._lost_by_closed.update(dropped=member.info.dropped, missed=member.info.missed)

    @property
    def losses(self) -> dict[str, int]:
        """What was lost, as far as the client knows, since it was made; by counter."""
        closed = self._lost_by_closed
        return {
            "overrun": self._overrun(),
            "unsent": closed["unsent"] + sum(each.info.unsent for each in self._publishers),
            "dropped": closed["dropped"] + sum(each.info.dropped for each in self._received),
            "missed": closed["missed"] + sum(each.info.missed for each in self._received),
        }

    def write(self) -> CounterReport | None:
        """The report that nobody has answered yet, or one of all that was counted since; None if nothing was."""
        if self._sending is not None:
            return self._sending
        received: dict[Subscription, SubscriptionInfo] = {}
        added: dict[str, dict[str, int]] = {}
        for each, before in self._received.items():
            now = each.info.copy()  # another thread may go on counting
            counted = now.since(before)
            if each.id is not None and any(counted.values()):
                received[each], added[each.id] = now, counted
            if len(added) == MAX_REPORTED_SUBSCRIPTIONS:
                break
        published = self._of_closed.copy()
        for publisher in self._publishers:
            published[publisher.channel.schema.name] += publisher.info.published
        published -= self._reported
        losses = self.losses
        lost = {name: max(losses[name] - self._reported_losses[name], 0) for name in ("unsent", "overrun")}
        if not published and not added and not any(lost.values()):
            return None
        batch = {"sender": self._sender, "number": self._next_number}
        self._next_number += 1
        body = {"subscriptions": added, "published": dict(published), **lost, "batch": batch}
        self._sending = CounterReport(received, body)
        return self._sending

    def refused(self, report: CounterReport) -> None:
        """The controller added nothing of a report: what was counted is part of the next one."""
        if report is self._sending:
            self._sending = None

    def accepted(self, report: CounterReport) -> None:
        if report is not self._sending:
            return  # it was sent twice at once, and accepted already
        self._sending = None
        self._reported.update(report.body["published"])
        self._reported_losses.update({name: report.body[name] for name in ("unsent", "overrun")})
        for subscription, info in report.received.items():
            if subscription in self._received:
                del self._received[subscription]
                self._received[subscription] = info

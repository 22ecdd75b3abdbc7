"""How fast traffic flows by what clients report: over the last minute, and since the plan of a schema came into force.

Counts are kept in slots of some seconds, and summed up for those that are recent. A new plan begins a new sum. Clients
report what they have counted for some seconds, so what they report right after a new plan is about the one before, and
is left out.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pleroma.control import SchemaEntry

SLOT_SECONDS = 5.0
SLOTS = 12
"""How many are the last minute."""
REPORTED_AFTER_SECONDS = 3.0
"""How old the events of a report may be: as long as clients wait from one report to the next."""
RATE_COUNTERS = ("published", "delivered", "wanted", "wasted")

_Counts = dict[str | None, dict[str | None, Counter[str]]]
"""By principal, and under None of all principals together: by schema, and under None where the report did not say of
which schema events were published.
"""


class TrafficRates:
    """Knows which plans are in force by `schemas`."""

    def __init__(self, schemas: Mapping[str, SchemaEntry], clock: Callable[[], float] = time.monotonic) -> None:
        self._schemas = schemas
        self._clock = clock
        self._started = clock()
        self._slots: deque[tuple[int, _Counts]] = deque()
        self._plans: dict[str, tuple[int, float]] = {}
        """By schema, the epoch in force and the time from which on reports are about it."""
        self._since_plan: _Counts = {}
        self._past: dict[str, dict[int, dict[str, Any]]] = {}
        """By schema and epoch: what earlier plans did, as far as these are kept."""
        self._notice()

    def add(self, principal: str, schema: str | None, counted: Mapping[str, int]) -> None:
        """Take what a principal counted; what is no rate is passed over."""
        self._notice()
        slot = int(self._clock() // SLOT_SECONDS)
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append((slot, {}))
        while self._slots[0][0] <= slot - SLOTS:
            self._slots.popleft()
        more = {name: counted.get(name, 0) for name in RATE_COUNTERS}
        sums = [self._slots[-1][1]]
        if schema in self._plans and self._clock() >= self._plans[schema][1]:
            sums.append(self._since_plan)
        for counts in sums:
            for whose in (principal, None):
                counts.setdefault(whose, {}).setdefault(schema, Counter()).update(more)

    def forget(self, principal: str) -> None:
        """The principal was removed; what it counted stays in the sums of all."""
        for counts in (self._since_plan, *(each for _, each in self._slots)):
            counts.pop(principal, None)

    def forget_schema(self, schema: str) -> None:
        """The schema was removed; what was counted of it stays in the rates of everything."""
        self._plans.pop(schema, None)
        self._past.pop(schema, None)
        for counted in self._since_plan.values():
            counted.pop(schema, None)

    def last_minute(self, principal: str | None = None, schema: str | None = None) -> dict[str, Any]:
        """The rates of a principal or of all, of a schema or of all."""
        now = self._clock()
        oldest = int(now // SLOT_SECONDS) - SLOTS + 1
        counts = (each for slot, each in self._slots if slot >= oldest)
        total = _total(principal, schema, *counts)
        return _rates(total, now - max(oldest * SLOT_SECONDS, self._started))

    def by_schema(self, principal: str | None = None) -> dict[str, dict[str, Any]]:
        """The rates of each schema, those since its plan came into force among them."""
        self._notice()
        return dict(self._of_schemas(principal))

    def of_plan(self, schema: str, epoch: int) -> dict[str, Any] | None:
        """What a plan did, as all principals reported; None if it was not in force since the controller started."""
        self._notice()
        known, since = self._plans.get(schema, (None, 0.0))
        return self._measured(schema, since) if known == epoch else self._past.get(schema, {}).get(epoch)

    def _measured(self, schema: str, since: float) -> dict[str, Any]:
        total = _total(None, schema, self._since_plan)
        return {
            "seconds": max(self._clock() - since, 0.0),
            "packets": total["wanted"] + total["wasted"],
            "waste_at_hosts": waste_at_hosts(total),
        }

    def _of_schemas(self, principal: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, (epoch, since) in self._plans.items():
            total = _total(principal, name, self._since_plan)
            yield (
                name,
                {
                    "epoch": epoch,
                    "last_minute": self.last_minute(principal, name),
                    "since_plan": _rates(total, max(self._clock() - since, 0.0)),
                },
            )

    def _notice(self) -> None:
        """Begin anew with the schemas that have another plan now."""
        for name, entry in self._schemas.items():
            epoch, since = self._plans.get(name, (None, 0.0))
            if epoch != entry.epoch:
                if epoch is not None:
                    self._past.setdefault(name, {})[epoch] = self._measured(name, since)
                    kept = {plan.epoch for plan in entry.plans}
                    self._past[name] = {each: did for each, did in self._past[name].items() if each in kept}
                self._plans[name] = entry.epoch, self._clock() + (REPORTED_AFTER_SECONDS if epoch else 0.0)
                for counted in self._since_plan.values():
                    counted.pop(name, None)


def waste_at_hosts(counted: Mapping[str, int]) -> float | None:
    """The part of the packets that came to hosts and nobody there wanted; None if none came."""
    arrived = counted["wanted"] + counted["wasted"]
    return counted["wasted"] / arrived if arrived else None


def _total(principal: str | None, schema: str | None, *parts: _Counts) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in parts:
        for what, counted in each.get(principal, {}).items():
            if schema in (None, what):
                total.update(counted)
    return total


def _rates(total: Counter[str], seconds: float) -> dict[str, Any]:
    span = max(seconds, 1e-9)
    return {
        "seconds": seconds,
        "published_per_s": total["published"] / span,
        "delivered_per_s": total["delivered"] / span,
        "waste_at_hosts": waste_at_hosts(total),
    }

"""Registrations against one event: which of them match it, and by which attributes the others miss it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pleroma.content import Event, Filter
from pleroma.control import Registered


def failing(filter: Filter, event: Event) -> list[str]:
    """The attributes by which an event misses the nearest box of a filter; none if it matches."""
    misses = (
        [
            attribute.name
            for attribute, (low, high), key in zip(filter.schema.attributes, box.ranges, event.value_keys, strict=True)
            if not low <= key < high
        ]
        for box in filter.boxes
    )
    return min(misses, key=len, default=[])


@dataclass(frozen=True, slots=True)
class ComparedRegistration:
    """An advertisement or a subscription, and the attributes by which the event misses it."""

    registered: Registered
    failed: tuple[str, ...]

    @property
    def filter(self) -> str:
        return self.registered.text

    @property
    def host(self) -> str:
        return self.registered.host

    @property
    def matches(self) -> bool:
        return not self.failed

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.registered.id,
            "principal": self.registered.principal,
            "host": self.host,
            "filter": self.filter,
            "matches": self.matches,
            "failed": list(self.failed),
        }


@dataclass(frozen=True, slots=True)
class ComparedRegistrations:
    """All registrations of an event's schema, compared with it."""

    advertisements: tuple[ComparedRegistration, ...]
    subscriptions: tuple[ComparedRegistration, ...]

    def __add__(self, more: ComparedRegistrations) -> ComparedRegistrations:
        return ComparedRegistrations(self.advertisements + more.advertisements, self.subscriptions + more.subscriptions)

    @classmethod
    def of(cls, registered: Iterable[Registered], event: Event) -> ComparedRegistrations:
        found: dict[str, list[ComparedRegistration]] = {"advertisement": [], "subscription": []}
        for each in registered:
            if each.entry.schema == event.schema:
                found[each.kind].append(ComparedRegistration(each, tuple(failing(each.filter, event))))
        return cls(tuple(found["advertisement"]), tuple(found["subscription"]))


def nearest_of(compared: Iterable[ComparedRegistration]) -> ComparedRegistration | None:
    """The registration that misses by the fewest attributes; of several, the first."""
    return min(compared, key=lambda each: len(each.failed), default=None)

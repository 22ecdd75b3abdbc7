"""The last check on the way of an event, explained: which subscriptions match it, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pleroma.content import Event, Filter
from pleroma.control import Registered


def failing(filter: Filter, event: Event) -> list[str]:
    """The attributes by which an event misses the nearest box of a filter; none if it matches."""
    misses = (
        [
            attribute.name
            for attribute, (low, high), key in zip(filter.schema.attributes, box.ranges, event.keys, strict=True)
            if not low <= key < high
        ]
        for box in filter.boxes
    )
    return min(misses, key=len, default=[])


def at_the_edge(
    registered: Iterable[Registered], event: Event, reached: set[str], to: str | None = None
) -> Iterator[dict[str, Any]]:
    """Explains the subscriptions that match, those whose host the event reaches in vain, and those at the host `to`."""
    for each in registered:
        if each.kind != "subscription" or each.entry.schema != event.schema:
            continue
        failed = failing(each.filter, event)
        if each.host in reached or each.host == to or not failed:
            yield {
                "id": each.id,
                "principal": each.principal,
                "host": each.host,
                "filter": str(each.filter),
                "reached": each.host in reached,
                "matches": not failed,
                "failed": failed,
            }

"""To whom sampled events go, by the registrations: traffic as the dealing of trees takes it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from pleroma.index.dz import Dz
from pleroma.index.dzset import DzSet
from pleroma.routing.balancing.cable_loads import Sent
from pleroma.routing.request import Registration, Subscribe
from pleroma.routing.topology import HostId


def sent_to_subscribers(events: Sequence[tuple[Dz, HostId]], registrations: Iterable[Registration]) -> list[Sent]:
    """Each event (its dz and its sender) with the other hosts whose subscriptions have its dz.

    The dz of an event is at least as long as those of subscriptions, so it lies in one if its first atom does.
    """
    wanted: dict[HostId, list[Dz]] = {}
    for each in registrations:
        if isinstance(each, Subscribe):
            wanted.setdefault(each.host, []).extend(each.region)
    order = sorted(range(len(events)), key=lambda number: events[number][0].start)
    atoms = [events[number][0].start for number in order]
    receivers: list[list[HostId]] = [[] for _ in events]
    for host, members in wanted.items():
        for start, end in DzSet(members).spans:
            for number in order[bisect_left(atoms, start) : bisect_left(atoms, end)]:
                receivers[number].append(host)
    return [
        Sent(dz, origin, frozenset(hosts) - {origin}) for (dz, origin), hosts in zip(events, receivers, strict=True)
    ]

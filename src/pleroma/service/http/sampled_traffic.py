"""The events sampled of late as dz of the plan in force: by them the API tells what regions bring, and what is wanted.

A schema's sample is encoded in a thread, once for each plan and each batch of new events, however many ask for it.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.control import SchemaEntry
from pleroma.evaluation.ordered_codes import OrderedCodes
from pleroma.index import Dz, DzSet, Index
from pleroma.service.collecting.recent_events import RecentEvents


class EncodedSample(NamedTuple):
    events: EventBatch
    codes: OrderedCodes

    def share(self, region: DzSet, wanted: Filter) -> dict[str, Any]:
        """Which part of the events a region brings, and which part a filter wants."""
        return {
            "delivered": float(self.codes.within(region).mean()),
            "wanted": float(self.events.matches(wanted).mean()),
            "events": len(self.events),
        }


class SampledTraffic:
    def __init__(self, recent: RecentEvents) -> None:
        self._recent = recent
        self._known: dict[str, tuple[tuple[int, int, Dz], asyncio.Task[EncodedSample]]] = {}

    async def of(self, entry: SchemaEntry) -> EncodedSample | None:
        """The sample of a schema by the plan that is in force when this is called; None where nothing was sampled."""
        version = self._recent.counts[entry.name], entry.epoch, entry.prefix
        known = self._known.get(entry.name)
        if known is None or known[0] != version:
            events = self._recent.of(entry.name)
            if events is None:
                return None
            encoding = asyncio.to_thread(_encoded, entry.index, entry.prefix, events)
            known = self._known[entry.name] = version, asyncio.create_task(encoding)
        return await asyncio.shield(known[1])  # others may wait for it


def _encoded(index: Index, prefix: Dz, events: EventBatch) -> EncodedSample:
    return EncodedSample(events, OrderedCodes(index.encode(events.points()), len(events), prefix))

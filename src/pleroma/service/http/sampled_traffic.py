"""The events sampled of late as dz of the plan in force: by them the API tells what regions bring, and what is wanted.

A schema's sample is encoded once for each plan and each batch of new events, in a thread.
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
        self._known: dict[str, tuple[tuple[int, int, Dz], EncodedSample]] = {}

    async def of(self, entry: SchemaEntry) -> EncodedSample | None:
        """The sample of a schema; None where nothing was sampled."""
        version = self._recent.count, entry.epoch, entry.prefix
        known = self._known.get(entry.name)
        if known is not None and known[0] == version:
            return known[1]
        events = self._recent.of(entry.name)
        if events is None:
            return None
        sample = await asyncio.to_thread(_encoded, entry.index, entry.prefix, events)
        self._known[entry.name] = version, sample
        return sample  # and not what another request found meanwhile, by another plan


def _encoded(index: Index, prefix: Dz, events: EventBatch) -> EncodedSample:
    return EncodedSample(events, OrderedCodes(index.encode(events.points()), len(events), prefix))

"""The sampled events of late, kept in memory: enough to say what the rules in force make of the traffic."""

from __future__ import annotations

from collections import deque

import numpy as np

from pleroma.content.batch import EventBatch

MAX_RECENT_EVENTS = 2_000
"""Events of each schema."""


class RecentEvents:
    """The last so many events of every schema."""

    def __init__(self, most: int = MAX_RECENT_EVENTS) -> None:
        self._most = most
        self._kept: dict[str, deque[EventBatch]] = {}
        self.count = 0
        """All that ever came, so that who has looked knows whether there are more."""

    def add(self, events: EventBatch) -> None:
        kept = self._kept.setdefault(events.schema.name, deque())
        kept.append(events[-self._most :])
        self.count += len(events)
        while sum(map(len, kept)) - len(kept[0]) >= self._most:
            kept.popleft()

    def of(self, schema: str) -> EventBatch | None:
        """The newest of a schema; None if none has come."""
        kept = self._kept.get(schema)
        if not kept:
            return None
        columns = zip(*(each.columns for each in kept), strict=True)
        joined = EventBatch(kept[0].schema, tuple(np.concatenate(parts) for parts in columns))
        return joined[-self._most :]

"""The last sampled events of every schema, kept in memory: enough to judge the rules in force by the traffic."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from pleroma.content.batch import EventBatch

MAX_RECENT_EVENTS = 2_000
"""Of each schema."""


class RecentEvents:
    """At most `max_events` of every schema."""

    def __init__(self, max_events: int = MAX_RECENT_EVENTS) -> None:
        self._max_events = max_events
        self._kept: dict[str, deque[EventBatch]] = {}
        self.counts: Counter[str] = Counter()
        """All events of a schema that ever came; who remembers it sees whether there are more."""

    def add(self, events: EventBatch) -> None:
        kept = self._kept.setdefault(events.schema.name, deque())
        kept.append(events[-self._max_events :])
        self.counts[events.schema.name] += len(events)
        while sum(map(len, kept)) - len(kept[0]) >= self._max_events:
            kept.popleft()

    def forget(self, schema: str) -> None:
        """The schema was removed. Its events may not fit to those of another one of this name."""
        self._kept.pop(schema, None)

    def of(self, schema: str) -> EventBatch | None:
        """The last events of a schema; None if none has come."""
        kept = self._kept.get(schema)
        if not kept:
            return None
        if len(kept) > 1:
            columns = zip(*(each.columns for each in kept), strict=True)
            joined = EventBatch(kept[0].schema, tuple(np.concatenate(parts) for parts in columns))
            kept.clear()
            kept.append(joined[-self._max_events :])  # or thousands of small batches would be joined each time
        return kept[0]

"""Where sampled events come in: some are kept in memory, new ones wait for the planner, and the lake gets its part.

Publishers draw at one rate, the higher one of what the planner and the lake want. If that is more than the lake should
get, events are drawn once more before they are landed. What a principal hands over beyond its share of the traffic
(`influence_limit`) is left out before anybody sees it: the rate, the planner, the recent events and the lake.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from pleroma.control import SchemaEntry
from pleroma.control.accepted_batches import AcceptedBatches
from pleroma.errors import BadRequest
from pleroma.pipeline.lake.landed import SampledEvents
from pleroma.service.collecting.collection import Collection
from pleroma.service.collecting.influence_limit import InfluenceLimit
from pleroma.service.collecting.recent_events import RecentEvents
from pleroma.service.collecting.sampling_rates import SamplingRates
from pleroma.service.collecting.told_rates import ToldRates

MAX_FRESH_EVENTS = 20_000
"""Events of a schema that wait for the planner; more are not kept for it."""


class SampleIntake:
    """`rates` is given where the controller re-plans by itself. `announce` tells publishers of another rate."""

    def __init__(
        self,
        collection: Collection | None,
        rates: SamplingRates | None,
        announce: Callable[[str], None],
        influence: InfluenceLimit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.recent = RecentEvents()
        self._collection = collection
        self._rates = rates
        self._announce = announce
        self._influence = influence
        self._told = ToldRates()
        self._clock = clock
        self._accepted = AcceptedBatches()
        self._fresh: dict[str, deque[SampledEvents]] = {}
        self._fresh_events: Counter[str] = Counter()
        self._random = np.random.default_rng()

    @property
    def is_open(self) -> bool:
        """Whether anybody wants samples."""
        return self._collection is not None or self._rates is not None

    def rate(self, schema: str) -> float:
        """The part of a schema's events that publishers should send as samples."""
        rate = max(self._lake_rate(schema), 0.0 if self._rates is None else self._rates.rate(schema))
        return self._told.tell(schema, rate, self._clock())

    def check_rate(self, schema: str, rate: float) -> None:
        """Refuse a rate that no publisher was told to draw at."""
        now = self.rate(schema)
        if not self._told.knows(schema, rate, self._clock()):
            reason = f"samples of {schema} are drawn at {now:g}, which the plan's answer says"
            raise BadRequest(reason, field="rate", value=rate)

    async def settled(self, sampled: SampledEvents) -> None:
        """Wait until the network has counted the events that these samples stand for, or all that it will."""
        if sampled.principal is not None:
            await self._influence.settled(sampled.principal, len(sampled.events), sampled.rate)

    def take(self, sampled: SampledEvents) -> int:
        """Take events from a publisher: how many of them. A batch that is known is passed over."""
        sampled = self._counting(sampled)
        batch, schema = sampled.batch, sampled.events.schema.name
        sender = None if batch is None else (batch.principal, (schema, batch.sender), batch.number)
        if len(sampled.events) and not (sender is not None and self._accepted.has(*sender)):
            if sender is not None:
                self._accepted.add(*sender)
            self.recent.add(sampled.events)
            if self._rates is not None:
                self._keep_for_planner(schema, sampled)
                if self._rates.note(schema, len(sampled.events), sampled.rate, self._clock()):
                    self._announce(schema)
        return len(sampled.events) if self._collection is None else self._collection.add_samples(self._thinned(sampled))

    def forget(self, principal: str) -> None:
        """The principal was removed."""
        self._accepted.forget(principal)
        self._influence.forget(principal)

    def forget_schema(self, schema: str) -> None:
        """The schema was removed."""
        self.recent.forget(schema)
        self.fresh(schema)
        self._told.forget(schema)
        if self._rates is not None:
            self._rates.forget(schema)

    def extend(self, entry: SchemaEntry) -> None:
        """The schema has a later version now: events of the one before do not mix with those that will come."""
        self.recent.forget(entry.name)
        self.fresh(entry.name)

    def now(self) -> datetime:
        """The time that samples without an age have."""
        return datetime.now(UTC) if self._collection is None else self._collection.clock.now()

    def fresh(self, schema: str) -> list[SampledEvents]:
        """The samples of a schema that the planner has not seen; each is given once."""
        self._fresh_events.pop(schema, None)
        return list(self._fresh.pop(schema, ()))

    def _counting(self, sampled: SampledEvents) -> SampledEvents:
        """As many of the samples as may count, drawn at random."""
        count = self._influence.counted(sampled.principal, len(sampled.events), sampled.rate)
        if count == len(sampled.events):
            return sampled
        drawn = np.sort(self._random.permutation(len(sampled.events))[:count])
        return sampled._replace(events=sampled.events[drawn], at=sampled.at[drawn])

    def _keep_for_planner(self, schema: str, sampled: SampledEvents) -> None:
        waiting = self._fresh.setdefault(schema, deque())
        waiting.append(sampled)
        self._fresh_events[schema] += len(sampled.events)
        while self._fresh_events[schema] > MAX_FRESH_EVENTS:
            self._fresh_events[schema] -= len(waiting.popleft().events)

    def _lake_rate(self, schema: str) -> float:
        return 0.0 if self._collection is None else self._collection.rate(schema)

    def _thinned(self, sampled: SampledEvents) -> SampledEvents:
        """What the lake should get of samples that were drawn at a higher rate than it asks for."""
        rate = self._lake_rate(sampled.events.schema.name)
        if sampled.rate <= rate or self._rates is None:
            return sampled
        drawn = np.flatnonzero(self._random.random(len(sampled.events)) < rate / sampled.rate)
        return sampled._replace(events=sampled.events[drawn], at=sampled.at[drawn], rate=rate or sampled.rate)

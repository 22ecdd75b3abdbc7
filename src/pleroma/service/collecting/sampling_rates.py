"""The sampling rate of each schema for a controller that re-plans by itself: as many events as one process can use.

The rate begins high enough for a slow publisher and follows the traffic: what came in the last seconds, divided by the
rate it was drawn at, tells how many events there are. Publishers read the plan again when the rate changes, so it is
changed only where it is far off. A publisher that says it drew at a lower rate than it was told to is not believed: it
would make traffic seem enormous, and all others send nothing.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

FIRST_RATE = 0.2
SAMPLES_PER_SECOND = 400.0
"""Of a schema, from all its publishers together: as many events as a plan is learned from come in a minute."""
MEASURED_SECONDS = 5.0
"""The traffic of so long a time tells the rate."""
FAR_OFF_RATIO = 2.0
"""A rate is changed if the right one is so many times higher or lower."""
LOWEST_RATE = 1e-4


class _Came(NamedTuple):
    at: float
    events: int
    of: float
    """How many events were published for these to be drawn, about."""


class SamplingRates:
    """Rates by schema; times are in seconds of one clock."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}
        self._rates_before: dict[str, float] = {}
        self._came: dict[str, deque[_Came]] = {}

    def rate(self, schema: str) -> float:
        return self._rates.get(schema, FIRST_RATE)

    def forget(self, schema: str) -> None:
        """The schema was removed."""
        for known in (self._rates, self._rates_before, self._came):
            known.pop(schema, None)

    def note(self, schema: str, events: int, drawn_at: float, now: float) -> bool:
        """Take note of samples that were drawn at a rate; whether the schema's rate has changed by that."""
        came = self._came.setdefault(schema, deque())
        lowest = min(self.rate(schema), self._rates_before.get(schema, 1.0))
        came.append(_Came(now, events, events / max(drawn_at, lowest)))
        if now - came[0].at < MEASURED_SECONDS:
            return False
        per_second = sum(each.of for each in came) / (now - came[0].at)
        came.clear()
        right = min(max(SAMPLES_PER_SECOND / per_second, LOWEST_RATE), 1.0)
        known = self.rate(schema)
        if known / FAR_OFF_RATIO < right < known * FAR_OFF_RATIO and not (right == 1.0 > known):
            return False
        self._rates_before[schema], self._rates[schema] = known, right
        return right != known

"""The sampling rates that publishers were told: samples that were drawn at any other rate are not believed.

A sample stands for one event divided by its rate, so whoever may choose the rate chooses how much each sample counts.
A publisher may hand samples over long after it drew them, so a rate is remembered for as long as a sample may be old.
"""

from __future__ import annotations

from pleroma.wire.api_terms import MAX_SAMPLE_AGE_SECONDS

MAX_TOLD_RATES = 256
"""Of a schema; the one that was told least recently is forgotten first."""


class ToldRates:
    """Times are in seconds of one clock."""

    def __init__(self) -> None:
        self._told: dict[str, dict[float, float]] = {}
        """By schema, each rate with the time at which it was told last, oldest first."""

    def tell(self, schema: str, rate: float, now: float) -> float:
        """Take note that a publisher is told this rate, and return it."""
        if rate > 0:
            told = self._told.setdefault(schema, {})
            told.pop(rate, None)
            told[rate] = now
            while len(told) > MAX_TOLD_RATES:
                del told[next(iter(told))]
        return rate

    def forget(self, schema: str) -> None:
        """The schema was removed."""
        self._told.pop(schema, None)

    def knows(self, schema: str, rate: float, now: float) -> bool:
        """Whether a sample that is handed over now may have been drawn at this rate."""
        told = self._told.get(schema, {}).get(rate)
        return told is not None and now - told <= MAX_SAMPLE_AGE_SECONDS

"""A stretch of time that is looked at as a whole: a day, mostly."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.moments import UNIX_EPOCH, parsed


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on and before `end`, both in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def day(cls, text: str) -> Period:
        try:
            start = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
            return cls(start, start + timedelta(days=1))
        except (ValueError, OverflowError):  # the last day there is has no end
            raise LakeError(f"{text!r} is not a day such as 2026-11-15", field="day", value=text) from None

    @classmethod
    def between(cls, start: str | None, end: str | None) -> Period:
        """From and to moments in ISO format, UTC unless they say otherwise; from the first, and until now."""
        first = parsed("from", start) if start is not None else UNIX_EPOCH
        last = parsed("to", end) if end is not None else datetime.now(UTC)
        if first >= last:
            raise LakeError(f"{last.isoformat()} is not after {first.isoformat()}", field="to", value=end)
        return cls(first, last)

    @classmethod
    def newest(cls, lake: Lake, name: str) -> Period:
        """The last day with events in it."""
        hours = lake.event_hours(name)
        if not hours:
            raise LakeError("there are no events", field="schema", value=name)
        return cls.day(hours[-1].partition("T")[0])

    def __str__(self) -> str:
        if self.end - self.start == timedelta(days=1) and self.start.time() == datetime.min.time():
            return f"{self.start:%Y-%m-%d}"
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%Y-%m-%d %H:%M:%S}"

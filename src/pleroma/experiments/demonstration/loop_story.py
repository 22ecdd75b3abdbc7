"""What happened in a closed loop, stretch by stretch: before the shift, after it, while the plan changed, afterwards.

Subscribers say twice a second what they have counted, so a stretch begins and ends with a blur of half a second. The
sums over the whole run are exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from pleroma.experiments.demonstration.replay import Counts

BEFORE, SHIFTED, CHANGING, AFTERWARDS = (
    "before the shift",
    "after the shift",
    "while the plan changes",
    "by the new plan",
)
EVERY = 2.0
"""Seconds between two points of the curve."""


def in_vain(counts: Counts) -> int:
    """What nobody wanted, also what was on its way by an old plan when a new one came."""
    return counts.wasted + counts.stray


def share(wasted: int, delivered: int) -> float | None:
    return wasted / (wasted + delivered) if wasted + delivered else None


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to see at a moment."""

    phase: str
    seconds: float
    published: int
    counts: Counts
    epoch: int
    waste: tuple[float | None, ...]
    """Every two seconds or so."""
    marks: tuple[tuple[int, str], ...]
    """Where in `waste` something happened."""
    said: tuple[str, ...]
    url: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the run, and what the subscribers counted in it."""

    name: str
    seconds: float
    epoch: int
    published: int
    counts: Counts

    @property
    def wasted(self) -> int:
        return in_vain(self.counts)

    @property
    def waste(self) -> float:
        return share(self.wasted, self.counts.delivered) or 0.0

    def to_json(self) -> dict[str, Any]:
        own = {"name": self.name, "seconds": round(self.seconds, 2), "epoch": self.epoch, "published": self.published}
        counted = ("delivered", "duplicates", "dropped", "overrun", "stray")
        told = {name: getattr(self.counts, name) for name in counted}
        return own | told | {"wasted": self.wasted, "waste": self.waste}


@dataclass(frozen=True, slots=True)
class Loop:
    """The run as it was."""

    stretches: tuple[Stretch, ...]
    shift_to_plan: float | None
    """Seconds from the first event of the other kind to the first that was sent by a plan made for it."""
    shift_to_settled: float | None
    """And until the old plan was gone from all switches."""
    decisions: tuple[dict[str, Any], ...]
    windows: int
    curve: tuple[tuple[float, float], ...]
    """Seconds from the start, and the share that was wasted around then."""
    published: int
    wanted: int
    missed: int
    too_many: int

    def waste(self, name: str) -> float | None:
        """In all stretches of a name; None if nothing came in them."""
        mine = [each for each in self.stretches if each.name == name]
        return share(sum(each.wasted for each in mine), sum(each.counts.delivered for each in mine))

    def to_json(self) -> dict[str, Any]:
        return {
            "shift_to_plan_s": self.shift_to_plan,
            "shift_to_settled_s": self.shift_to_settled,
            "waste": {name: self.waste(name) for name in (BEFORE, SHIFTED, CHANGING, AFTERWARDS)},
            "published": self.published,
            "wanted": self.wanted,
            "missed": self.missed,
            "too_many": self.too_many,
            "windows": self.windows,
            "stretches": [each.to_json() for each in self.stretches],
            "decisions": list(self.decisions),
            "curve": [[round(at, 2), round(share, 4)] for at, share in self.curve],
        }


class Moment(NamedTuple):
    """What was counted of the events that were published until `at`."""

    at: float
    counts: Counts


class Start(NamedTuple):
    """Of a stretch."""

    name: str
    at: float
    epoch: int
    published: int


@dataclass
class Diary:
    """What subscribers have said and when something began, from which stretches and the curve are made."""

    moments: list[Moment] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic

    def note(self, counts: Counts) -> None:
        """What subscribers count now is of events that were published a little earlier: on a busy machine, much."""
        late = (counts.late_us[0] or 0.0) / 1e6
        self.moments.append(Moment(self.clock() - late, counts))

    def begin(self, name: str, epoch: int, published: int) -> None:
        self.starts.append(Start(name, self.clock(), epoch, published))

    def _every(self, seconds: float) -> list[Moment]:
        kept: list[Moment] = []
        for moment in self.moments:
            if not kept or moment.at - kept[-1].at >= seconds:
                kept.append(moment)
        return kept

    def timed(self, seconds: float) -> tuple[tuple[float, float], ...]:
        """The curve by time since the first stretch began; nothing where nothing came."""
        pairs = pairwise(self._every(seconds))
        shares = [((a.at + b.at) / 2 - self.starts[0].at, _share(a.counts, b.counts)) for a, b in pairs]
        return tuple((at, share) for at, share in shares if share is not None)

    def curve(self) -> tuple[tuple[float | None, ...], tuple[tuple[int, str], ...]]:
        """The share that was wasted, every `EVERY` seconds or so, and where in it stretches began."""
        kept = self._every(EVERY)
        shares = [_share(before.counts, after.counts) for before, after in pairwise(kept)]
        marks = [(sum(moment.at <= start.at for moment in kept[1:]), start.name) for start in self.starts[1:]]
        return tuple(shares), tuple(marks)

    def stretches(self, published: int, counts: Counts) -> tuple[Stretch, ...]:
        ends = [*self.starts[1:], Start("", self.clock(), 0, published)]
        sums = [Counts(), *(self._until(start.at, counts) for start in self.starts[1:]), counts]
        return tuple(
            Stretch(start.name, end.at - start.at, start.epoch, end.published - start.published, after.since(before))
            for start, end, (before, after) in zip(self.starts, ends, pairwise(sums), strict=True)
        )

    def _until(self, at: float, last: Counts) -> Counts:
        return next((moment.counts for moment in self.moments if moment.at >= at), last)


def _share(before: Counts, after: Counts) -> float | None:
    return share(in_vain(after) - in_vain(before), after.delivered - before.delivered)

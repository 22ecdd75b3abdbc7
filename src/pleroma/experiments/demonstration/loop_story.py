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

from pleroma.experiments.demonstration.replay import DeliveryCounts

BEFORE, SHIFTED, CHANGING, AFTERWARDS = (
    "before the shift",
    "after the shift",
    "while the plan changes",
    "by the new plan",
)
CURVE_SECONDS = 2.0
"""The time between two points of the curve that is shown."""


def unwanted_packets(counts: DeliveryCounts) -> int:
    """Packets at hosts that nobody there wanted, with those under way by an old plan when a new one came."""
    return counts.wasted + counts.stray


def share(wasted: int, wanted: int) -> float | None:
    return wasted / (wasted + wanted) if wasted + wanted else None


@dataclass(frozen=True, slots=True)
class LoopView:
    """The state of a closed loop at a moment, as it is shown."""

    phase: str
    seconds: float
    published: int
    counts: DeliveryCounts
    epoch: int
    waste_at_hosts: tuple[float | None, ...]
    """The share of packets that nobody wanted, every `CURVE_SECONDS` or so; None where nothing came."""
    marks: tuple[tuple[int, str], ...]
    """Where in `waste_at_hosts` something happened."""
    said: tuple[str, ...]
    url: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the run, and what the subscribers counted in it."""

    name: str
    seconds: float
    epoch: int
    published: int
    counts: DeliveryCounts

    @property
    def wasted(self) -> int:
        return unwanted_packets(self.counts)

    @property
    def waste_at_hosts(self) -> float:
        return share(self.wasted, self.counts.wanted) or 0.0

    def to_json(self) -> dict[str, Any]:
        own = {"name": self.name, "seconds": round(self.seconds, 2), "epoch": self.epoch, "published": self.published}
        counted = ("delivered", "duplicates", "dropped", "overrun", "stray")
        told = {name: getattr(self.counts, name) for name in counted}
        return own | told | {"wasted": self.wasted, "waste_at_hosts": self.waste_at_hosts}


@dataclass(frozen=True, slots=True)
class LoopStory:
    """What happened in a run of the closed loop: its stretches, its curve of waste at hosts, and its sums."""

    stretches: tuple[Stretch, ...]
    shift_to_plan: float | None
    """Seconds from the first event of the other kind to the first that was sent by a plan made for it."""
    shift_to_settled: float | None
    """Seconds from that first event until the old plan was gone from all switches."""
    decisions: tuple[dict[str, Any], ...]
    windows: int
    curve: tuple[tuple[float, float], ...]
    """Seconds from the start, and the share of packets at hosts that was wasted around then."""
    published: int
    wanted: int
    missed: int
    too_many: int

    def waste_at_hosts(self, name: str) -> float | None:
        """The share of unwanted packets in all stretches of a name; None if nothing came in them."""
        mine = [each for each in self.stretches if each.name == name]
        return share(sum(each.wasted for each in mine), sum(each.counts.wanted for each in mine))

    def to_json(self) -> dict[str, Any]:
        return {
            "shift_to_plan_s": self.shift_to_plan,
            "shift_to_settled_s": self.shift_to_settled,
            "waste_at_hosts": {name: self.waste_at_hosts(name) for name in (BEFORE, SHIFTED, CHANGING, AFTERWARDS)},
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
    """What subscribers had counted of the events that were published until `at`."""

    at: float
    counts: DeliveryCounts


class StretchStart(NamedTuple):
    """When a stretch began, and how many events had been published by then."""

    name: str
    at: float
    epoch: int
    published: int


@dataclass
class Diary:
    """Collects what subscribers count and when stretches begin; makes stretches and the curve of waste from them."""

    moments: list[Moment] = field(default_factory=list)
    starts: list[StretchStart] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic

    def note(self, counts: DeliveryCounts) -> None:
        """What subscribers count now is of events that were published a little earlier: on a busy machine, much."""
        late = (counts.late_us[0] or 0.0) / 1e6
        self.moments.append(Moment(self.clock() - late, counts))

    def begin(self, name: str, epoch: int, published: int) -> None:
        self.starts.append(StretchStart(name, self.clock(), epoch, published))

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
        """The share that was wasted, every `CURVE_SECONDS` seconds or so, and where in it stretches began."""
        kept = self._every(CURVE_SECONDS)
        shares = [_share(before.counts, after.counts) for before, after in pairwise(kept)]
        marks = [(sum(moment.at <= start.at for moment in kept[1:]), start.name) for start in self.starts[1:]]
        return tuple(shares), tuple(marks)

    def stretches(self, published: int, counts: DeliveryCounts) -> tuple[Stretch, ...]:
        ends = [*self.starts[1:], StretchStart("", self.clock(), 0, published)]
        sums = [DeliveryCounts(), *(self._until(start.at, counts) for start in self.starts[1:]), counts]
        return tuple(
            Stretch(start.name, end.at - start.at, start.epoch, end.published - start.published, after.since(before))
            for start, end, (before, after) in zip(self.starts, ends, pairwise(sums), strict=True)
        )

    def _until(self, at: float, last: DeliveryCounts) -> DeliveryCounts:
        return next((moment.counts for moment in self.moments if moment.at >= at), last)


def _share(before: DeliveryCounts, after: DeliveryCounts) -> float | None:
    return share(unwanted_packets(after) - unwanted_packets(before), after.wanted - before.wanted)

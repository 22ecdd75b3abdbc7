"""A window of the traffic: what was published in some minutes, what of it was wasted, and where its values lay.

Everything in a window is a sum of whole numbers over events, counted under metric keys. So the windows of any parts of
the same events add up to the window of all events, in whatever order the parts come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pleroma.content import Schema
from pleroma.errors import LakeError
from pleroma.index import Waste
from pleroma.replanning.reported_counts import ReportedCounts

HISTOGRAM_BINS = 32
"""Bins of a histogram, of equal width over the extent of an attribute. One more bin counts events that lack it."""


class MetricKey(NamedTuple):
    """What is counted. `number` is an attribute's position or an epoch, `bin` a bin of a histogram; 0 if unused."""

    metric: str
    number: int = 0
    bin: int = 0


MetricCounts = Mapping[MetricKey, int]


@dataclass(frozen=True, slots=True)
class TrafficWindow:
    """The traffic from `start` to before `end`. `events` are those within the domains; `refused` are the others.

    For `unjudged` of the events the lake has no subscriptions or no plan: they are in the histograms, and in no count
    of deliveries. `pairs` counts (event, box of a subscription), `matched` the pairs that match along each attribute.
    """

    schema: str
    attributes: tuple[str, ...]
    start: datetime
    end: datetime
    events: int
    refused: int
    unjudged: int
    epochs: Mapping[int, int]
    """Events by the plan that they were sent by."""
    deliveries: int
    wanted: int
    pairs: int
    matched: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    """By attribute: events by bin."""
    empty_before: int = 0
    """Windows without a single event between the previous window with events and this one."""
    reported: ReportedCounts | None = None
    """What subscribers themselves counted, as far as they had reported it when the window was closed."""
    drift: float | None = None
    """Distance from the traffic that the plan in force was made from; None if that traffic is not known."""

    @classmethod
    def of(cls, schema: Schema, start: datetime, length: timedelta, counts: MetricCounts) -> TrafficWindow:
        def at(metric: str, number: int = 0, bin: int = 0) -> int:
            return counts.get(MetricKey(metric, number, bin), 0)

        dimensions = range(len(schema))
        return cls(
            schema=schema.name,
            attributes=schema.names,
            start=start,
            end=start + length,
            events=at("events"),
            refused=at("refused"),
            unjudged=at("unjudged"),
            epochs={key.number: n for key, n in sorted(counts.items()) if key.metric == "epoch" and n},
            deliveries=at("deliveries"),
            wanted=at("wanted"),
            pairs=at("pairs"),
            matched=tuple(at("matched", d) for d in dimensions),
            counts=tuple(tuple(at("histogram", d, place) for place in range(HISTOGRAM_BINS + 1)) for d in dimensions),
        )

    @property
    def waste(self) -> Waste:
        return Waste(self.deliveries, self.wanted)

    @property
    def epoch(self) -> int | None:
        """The epoch of the plan that most events were sent by; of two, the newer."""
        return max(self.epochs, key=lambda each: (self.epochs[each], each), default=None)

    @property
    def histograms(self) -> dict[str, tuple[int, ...]]:
        return dict(zip(self.attributes, self.counts, strict=True))

    @property
    def match_rates(self) -> dict[str, float]:
        """By attribute: the share of (event, box) that match along it; 1 where there was nothing to match."""
        shares = (matched / self.pairs if self.pairs else 1.0 for matched in self.matched)
        return dict(zip(self.attributes, shares, strict=True))

    def __add__(self, other: TrafficWindow) -> TrafficWindow:
        """Both together, from the first's start to the last's end."""
        if (self.schema, self.attributes) != (other.schema, other.attributes):
            raise LakeError("windows of two schemas do not add up", field="schema", value=other.schema)
        epochs = {e: self.epochs.get(e, 0) + other.epochs.get(e, 0) for e in sorted({*self.epochs, *other.epochs})}
        return replace(
            self,
            start=min(self.start, other.start),
            end=max(self.end, other.end),
            epochs=epochs,
            matched=_summed(self.matched, other.matched),
            counts=tuple(_summed(mine, its) for mine, its in zip(self.counts, other.counts, strict=True)),
            empty_before=self.empty_before + other.empty_before,
            reported=_both(self.reported, other.reported),
            drift=None,
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": self.schema,
            "start": written(self.start),
            "end": written(self.end),
            "events": self.events,
            "refused": self.refused,
            "unjudged": self.unjudged,
            "empty_before": self.empty_before,
            "epochs": {str(epoch): n for epoch, n in self.epochs.items()},
            "deliveries": self.deliveries,
            "wanted": self.wanted,
            "waste": self.waste.rate,
            "reported": None if self.reported is None else asdict(self.reported),
            "drift": self.drift,
            "pairs": self.pairs,
            "matched": dict(zip(self.attributes, self.matched, strict=True)),
            "histograms": {name: list(counts) for name, counts in self.histograms.items()},
        }

    @classmethod
    def from_json(cls, data: Any) -> TrafficWindow:
        """What `to_json` gave."""
        try:
            reported = data["reported"]
            return cls(
                schema=data["schema"],
                attributes=tuple(data["histograms"]),
                start=datetime.fromisoformat(data["start"]),
                end=datetime.fromisoformat(data["end"]),
                epochs={int(epoch): n for epoch, n in data["epochs"].items()},
                matched=tuple(data["matched"][name] for name in data["histograms"]),
                counts=tuple(map(tuple, data["histograms"].values())),
                reported=None if reported is None else ReportedCounts(**reported),
                drift=data["drift"],
                empty_before=data["empty_before"],
                **{name: data[name] for name in _SUMS},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LakeError(f"is no window: {error}", field="window") from None


_SUMS = ("events", "refused", "unjudged", "deliveries", "wanted", "pairs")


def merged(windows: Iterable[TrafficWindow]) -> TrafficWindow | None:
    """All of them together, or None if there are none."""
    total: TrafficWindow | None = None
    for each in windows:
        total = each if total is None else total + each
    return total


def empty_between(before: TrafficWindow | None, start: datetime, length: timedelta) -> int:
    """How many windows without events lie between the last window with events and this start."""
    return 0 if before is None or start <= before.end else (start - before.end) // length


def written(moment: datetime) -> str:
    """A moment as text that sorts as moments do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _summed(mine: tuple[int, ...], its: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(mine, its, strict=True))


def _both(mine: ReportedCounts | None, its: ReportedCounts | None) -> ReportedCounts | None:
    return mine + its if mine is not None and its is not None else mine or its

"""From landed events to the counts of their windows: what runs on the executors, one batch after the other.

An event is judged by the plan it was sent by and by the subscriptions of its time. A streaming query is planned once
and runs for weeks, so plans and subscriptions are read from the lake when an event needs them, and kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.arrays.types import Ints
from pleroma.content import Schema, Text
from pleroma.content.arrow_columns import sifted
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.judge import held
from pleroma.evaluation.sample import Sample
from pleroma.pipeline.cover_cache import CoverCache
from pleroma.pipeline.lake import lake_layout
from pleroma.pipeline.lake.lake import Lake, LandedPlan, SubscriptionRow, SubscriptionSnapshot
from pleroma.pipeline.watch.windows import HISTOGRAM_BINS, MetricKey

METRIC_COLUMNS = pa.schema(
    [
        pa.field("at", lake_layout.MOMENT_TYPE),
        pa.field("metric", pa.string()),
        pa.field("number", pa.int32()),
        pa.field("bin", pa.int32()),
        pa.field("value", pa.int64()),
    ]
)
"""The rows that executors send to the aggregation; `at` is the time of the newest event of the batch in the window."""
METRIC_SQL = "at timestamp, metric string, number int, bin int, value long"
MAX_SNAPSHOTS = 16
"""Snapshots of the subscriptions that are kept in memory."""


class History(Protocol):
    """Which plans and which subscriptions were in force, and when."""

    def plan(self, epoch: int) -> LandedPlan | None: ...

    def snapshots(self) -> Sequence[datetime]:
        """The moment that each snapshot of the subscriptions is valid from, oldest first."""

    def snapshot(self, since: datetime) -> SubscriptionSnapshot: ...


@dataclass(slots=True)
class LakeHistory:
    """The history as a lake has it. Plans and snapshots never change, so each is read once; the list is read anew."""

    lake: Lake
    schema: str
    _plans: dict[int, LandedPlan] = field(default_factory=dict)
    _snapshots: dict[datetime, SubscriptionSnapshot] = field(default_factory=dict)

    def plan(self, epoch: int) -> LandedPlan | None:
        if epoch not in self._plans:
            found = self.lake.plan(self.schema, epoch)
            if found is None:
                return None
            self._plans[epoch] = found
        return self._plans[epoch]

    def snapshots(self) -> Sequence[datetime]:
        return [each.since for each in self.lake.snapshots(self.schema)]

    def snapshot(self, since: datetime) -> SubscriptionSnapshot:
        if since not in self._snapshots:
            while len(self._snapshots) >= MAX_SNAPSHOTS:
                del self._snapshots[min(self._snapshots)]
            self._snapshots[since] = self.lake.subscriptions(self.schema, since)
        return self._snapshots[since]


class WindowCounts(NamedTuple):
    """What a batch of events adds to one window. Times are in microseconds."""

    start: int
    newest: int
    counts: Counter[MetricKey]


class WindowCounter:
    """Counts batches of landed events into windows; `length` is that of a window, in microseconds."""

    def __init__(self, schema: Schema, history: History, length: int) -> None:
        self._schema = schema
        self._history = history
        self._length = length
        self._covers = CoverCache()

    def count(self, batch: pa.RecordBatch) -> Iterator[WindowCounts]:
        """What the batch adds to each window that it has events of."""
        names = lake_layout.EventColumns.of(self._schema)
        batch = batch.filter(batch.column(names.at).is_valid())  # an event without a time is in no window
        events, good = sifted(self._schema, {name: batch.column(name) for name in self._schema.names})
        at = _whole(batch.column(names.at).cast(lake_layout.MOMENT_TYPE).cast(pa.int64()))
        epoch = _whole(batch.column(names.epoch).fill_null(0))
        window = at // self._length
        place = np.cumsum(good) - 1  # position of a row among the good events
        since = self._history.snapshots()
        begins = np.array([lake_layout.microseconds(each) for each in since], np.int64)
        for number in np.unique(window).tolist():
            rows = np.flatnonzero(window == number)
            chosen = rows[good[rows]]
            counts = Counter({MetricKey("refused"): len(rows) - len(chosen)})
            if len(chosen):
                taken = events[place[chosen]]
                counts.update(_value_counts(taken))
                valid = np.searchsorted(begins, at[chosen], side="right") - 1
                for e, s in sorted(set(zip(epoch[chosen].tolist(), valid.tolist(), strict=True))):
                    some = taken[(epoch[chosen] == e) & (valid == s)]
                    counts.update(self._delivery_counts(some, e, since[s] if s >= 0 else None))
            yield WindowCounts(number * self._length, int(at[rows].max()), +counts)

    def _delivery_counts(self, events: EventBatch, epoch: int, since: datetime | None) -> dict[MetricKey, int]:
        """What a plan and the subscriptions since a moment make of events."""
        sent = {MetricKey("epoch", epoch): len(events)}
        in_force = self._in_force(epoch, since)
        if in_force is None:
            return sent | {MetricKey("unjudged"): len(events)}
        plan, rows = in_force
        if not rows:
            return sent
        covers = self._covers.covers(plan, rows)
        sample = Sample.of(events, [row.filter for row in rows])
        return sent | {
            MetricKey("deliveries"): held(plan.plan.index.encode(sample.points), covers),
            MetricKey("wanted"): GridEvaluator(sample, 1).wanted,
            MetricKey("pairs"): sample.events * sample.boxes,
            **{MetricKey("matched", d): n for d, n in enumerate(_matched(sample))},
        }

    def _in_force(self, epoch: int, since: datetime | None) -> tuple[LandedPlan, list[SubscriptionRow]] | None:
        """The plan and the subscriptions that were in force; None if one of them is not in the lake."""
        try:
            plan = self._history.plan(epoch)
            return None if plan is None or since is None else (plan, self._history.snapshot(since).rows)
        except LakeError:  # it has expired, or is damaged
            return None


def _value_counts(events: EventBatch) -> dict[MetricKey, int]:
    """How many events there are, and in which bins of the histograms their values lie."""
    counts = {MetricKey("events"): len(events)}
    points = events.points()
    for d, attribute in enumerate(events.schema.attributes):
        low, high = attribute.extent
        scaled = (points[:, d] - low) / (high - low if high > low else 1.0) * HISTOGRAM_BINS
        bins = np.clip(scaled, 0, HISTOGRAM_BINS - 1).astype(np.int64)
        column = events.columns[d]
        absent: Any = None if isinstance(attribute, Text) else attribute.absent
        bins[np.asarray(column == absent, np.bool_)] = HISTOGRAM_BINS
        for place, n in enumerate(np.bincount(bins, minlength=HISTOGRAM_BINS + 1).tolist()):
            counts[MetricKey("histogram", d, place)] = n
    return counts


def _matched(sample: Sample) -> list[int]:
    """By dimension: the number of pairs (event, box) in which the event's value lies in the box's range."""
    order = np.sort(sample.keys, axis=0)
    return [
        int((np.searchsorted(order[:, d], sample.high[:, d]) - np.searchsorted(order[:, d], sample.low[:, d])).sum())
        for d in range(order.shape[1])
    ]


def _whole(column: Any) -> Ints:
    numbers: NDArray[np.int64] = np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)
    return numbers


@dataclass(frozen=True, slots=True)
class CountWindows:
    """For `mapInArrow`: carries names to the executors; each process there opens the lake and the schema once."""

    url: str
    schema: str
    length: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counter = _opened_counter(self.url, self.schema, self.length)
        for batch in batches:
            if batch.num_rows:
                for counted in counter.count(batch):
                    yield _rows(counted)


@lru_cache(maxsize=4)
def _opened_counter(url: str, schema: str, length: int) -> WindowCounter:
    lake = Lake.at(url)
    return WindowCounter(lake.schema(schema), LakeHistory(lake, schema), length)


def _rows(counted: WindowCounts) -> pa.RecordBatch:
    metrics, numbers, bins = zip(*counted.counts, strict=True)
    columns: list[Any] = [[counted.newest] * len(metrics), metrics, numbers, bins, list(counted.counts.values())]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, METRIC_COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=METRIC_COLUMNS)

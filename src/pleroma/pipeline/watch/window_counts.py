"""From landed events to the cells of their windows: what runs on the executors, one batch after the other.

An event is judged by the plan it was sent by and by the subscriptions of its time. A streaming query is planned once
and runs for weeks, so these are read from the lake when an event needs them, and kept.
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
from pleroma.content import Filter, Schema, Text
from pleroma.content.arrow_columns import sifted
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.outcome import held
from pleroma.evaluation.sample import Sample
from pleroma.index import DzSet
from pleroma.pipeline.audit.tally import covered
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
"""What goes from the executors to the aggregation; `at` is the newest event of the batch in the window."""
METRIC_SQL = "at timestamp, metric string, number int, bin int, value long"
MAX_SNAPSHOTS = 16
"""Snapshots that are remembered."""
MAX_COVERS = 200_000
"""Covers that are remembered, of subscriptions that may be gone and plans that may be over."""


class History(Protocol):
    """What is in force, and when."""

    def plan(self, epoch: int) -> LandedPlan | None: ...

    def snapshots(self) -> Sequence[datetime]:
        """Since when each is valid, oldest first."""

    def snapshot(self, since: datetime) -> SubscriptionSnapshot: ...


@dataclass(slots=True)
class LakeHistory:
    """What a lake says. Plans and snapshots never change, so each is read once; which there are is asked anew."""

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
    """One window's share of a batch. Times are in microseconds."""

    start: int
    newest: int
    cells: Counter[MetricKey]


class WindowCounter:
    """`length` of a window in microseconds."""

    def __init__(self, schema: Schema, standing: History, length: int) -> None:
        self._schema = schema
        self._standing = standing
        self._length = length
        self._covers: dict[tuple[int, str], tuple[Filter, DzSet]] = {}

    def counted(self, batch: pa.RecordBatch) -> Iterator[WindowCounts]:
        names = lake_layout.EventColumns.of(self._schema)
        batch = batch.filter(batch.column(names.at).is_valid())  # what has no time is in no window
        events, good = sifted(self._schema, {name: batch.column(name) for name in self._schema.names})
        at = _whole(batch.column(names.at).cast(lake_layout.MOMENT_TYPE).cast(pa.int64()))
        epoch = _whole(batch.column(names.epoch).fill_null(0))
        window = at // self._length
        place = np.cumsum(good) - 1  # of a row among the events that are good
        since = self._standing.snapshots()
        begins = np.array([lake_layout.microseconds(each) for each in since], np.int64)
        for number in np.unique(window).tolist():
            rows = np.flatnonzero(window == number)
            chosen = rows[good[rows]]
            cells = Counter({MetricKey("refused"): len(rows) - len(chosen)})
            if len(chosen):
                taken = events[place[chosen]]
                cells.update(_described(taken))
                valid = np.searchsorted(begins, at[chosen], side="right") - 1
                for e, s in sorted(set(zip(epoch[chosen].tolist(), valid.tolist(), strict=True))):
                    some = taken[(epoch[chosen] == e) & (valid == s)]
                    cells.update(self._judged(some, e, since[s] if s >= 0 else None))
            yield WindowCounts(number * self._length, int(at[rows].max()), +cells)

    def _judged(self, events: EventBatch, epoch: int, since: datetime | None) -> dict[MetricKey, int]:
        sent = {MetricKey("epoch", epoch): len(events)}
        judges = self._judges(epoch, since)
        if judges is None:
            return sent | {MetricKey("unjudged"): len(events)}
        plan, rows = judges
        if not rows:
            return sent
        if len(self._covers) > MAX_COVERS:
            self._covers.clear()
        covers = []
        for row in rows:
            of, cover = self._covers.get((epoch, row.id), (None, DzSet()))
            if of != row.filter:
                cover = covered(plan.plan.index, row.filter, plan.members)
                self._covers[epoch, row.id] = row.filter, cover
            covers.append(cover)
        sample = Sample.of(events, [row.filter for row in rows])
        return sent | {
            MetricKey("deliveries"): held(plan.plan.index.encode(sample.points), covers),
            MetricKey("wanted"): GridEvaluator(sample, 1).wanted,
            MetricKey("pairs"): sample.events * sample.boxes,
            **{MetricKey("matched", d): n for d, n in enumerate(_matched(sample))},
        }

    def _judges(self, epoch: int, since: datetime | None) -> tuple[LandedPlan, list[SubscriptionRow]] | None:
        """The plan and the subscriptions that were in force; None where one of them is not in the lake."""
        try:
            plan = self._standing.plan(epoch)
            return None if plan is None or since is None else (plan, self._standing.snapshot(since).rows)
        except LakeError:  # it has expired, or is damaged
            return None


def _described(events: EventBatch) -> dict[MetricKey, int]:
    """How many there are, and where their values lie."""
    cells = {MetricKey("events"): len(events)}
    points = events.points()
    for d, attribute in enumerate(events.schema.attributes):
        low, high = attribute.extent
        scaled = (points[:, d] - low) / (high - low if high > low else 1.0) * HISTOGRAM_BINS
        bins = np.clip(scaled, 0, HISTOGRAM_BINS - 1).astype(np.int64)
        column = events.columns[d]
        absent: Any = None if isinstance(attribute, Text) else attribute.absent
        bins[np.asarray(column == absent, np.bool_)] = HISTOGRAM_BINS
        for place, n in enumerate(np.bincount(bins, minlength=HISTOGRAM_BINS + 1).tolist()):
            cells[MetricKey("histogram", d, place)] = n
    return cells


def _matched(sample: Sample) -> list[int]:
    """By dimension: (event, box) in which the value lies in the box's range there."""
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
    """For `mapInArrow`: carries names to the executors, where what they stand for is opened once a process."""

    url: str
    schema: str
    length: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counting = _opened(self.url, self.schema, self.length)
        for batch in batches:
            if batch.num_rows:
                for counted in counting.counted(batch):
                    yield _rows(counted)


@lru_cache(maxsize=4)
def _opened(url: str, schema: str, length: int) -> WindowCounter:
    lake = Lake.at(url)
    return WindowCounter(lake.schema(schema), LakeHistory(lake, schema), length)


def _rows(counted: WindowCounts) -> pa.RecordBatch:
    metrics, numbers, bins = zip(*counted.cells, strict=True)
    columns: list[Any] = [[counted.newest] * len(metrics), metrics, numbers, bins, list(counted.cells.values())]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, METRIC_COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=METRIC_COLUMNS)

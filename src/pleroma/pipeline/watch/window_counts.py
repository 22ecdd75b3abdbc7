"""From landed events to the counts of their windows: what runs on the executors, one batch after the other.

An event is judged by the plan it was sent by and by the subscriptions of its time. A streaming query is planned once
and runs for weeks, so plans and subscriptions are read from the lake when events need them, and kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.arrays.types import Ints
from pleroma.content import Schema
from pleroma.content.arrow_columns import MOMENT_TYPE, sifted
from pleroma.content.batch import EventBatch
from pleroma.errors import DamagedFile
from pleroma.pipeline.cover_cache import CoverCache
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns
from pleroma.pipeline.lake.landed import LandedPlan, RegistrationRow
from pleroma.pipeline.lake.moments import from_microseconds
from pleroma.pipeline.lake.registration_history import RegistrationHistory
from pleroma.replanning.situation import PlacedFilter
from pleroma.replanning.traffic_counts import delivery_counts, value_counts
from pleroma.replanning.windows import MetricKey
from pleroma.routing import HostId

METRIC_COLUMNS = pa.schema(
    [
        pa.field("at", MOMENT_TYPE),
        pa.field("metric", pa.string()),
        pa.field("number", pa.int32()),
        pa.field("bin", pa.int32()),
        pa.field("value", pa.int64()),
    ]
)
"""The rows that executors send to the aggregation; `at` is the time of the newest event of the batch in the window."""
METRIC_SQL = "at timestamp, metric string, number int, bin int, value long"
HISTORY_MARGIN = timedelta(hours=1)
"""Subscriptions are read for so much more time than is asked for, on both sides: the next events are near."""


class History(Protocol):
    """Which plans and which subscriptions were in force, and when."""

    def plan(self, epoch: int) -> LandedPlan | None: ...

    def subscriptions(self, start: datetime, end: datetime) -> RegistrationHistory:
        """What was in force in `[start, end)`, and maybe before and after."""


@dataclass(slots=True)
class LakeHistory:
    """The history as a lake has it. A plan never changes, so each is read once.

    Subscriptions are read for the time that is asked for, and again when the table has changed.
    """

    lake: Lake
    schema: str
    _plans: dict[int, LandedPlan] = field(default_factory=dict)
    _read: tuple[int, datetime, datetime, RegistrationHistory] | None = None
    """The version of the table, and the time of what was read from it last."""

    def plan(self, epoch: int) -> LandedPlan | None:
        if epoch not in self._plans:
            found = self.lake.plan(self.schema, epoch)
            if found is None:
                return None
            self._plans[epoch] = found
        return self._plans[epoch]

    def subscriptions(self, start: datetime, end: datetime) -> RegistrationHistory:
        version = self.lake.table("subscriptions").version
        if self._read is not None:
            known, first, last, held = self._read
            if known == version and first <= start and end <= last:
                return held
        first, last = start - HISTORY_MARGIN, end + HISTORY_MARGIN
        found = self.lake.subscription_history(self.schema, first, last)
        if self._read is not None and self._read[3].schema == found.schema:  # parsing is most of the work
            parsed = self._read[3].filters
            found.filters.update(
                {row.filter: parsed[row.filter] for row, _, _ in found.entries if row.filter in parsed}
            )
        self._read = version, first, last, found
        return found


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
        names, columns = EventColumns.of(self._schema), attribute_columns(self._schema)
        batch = batch.filter(batch.column(names.at).is_valid())  # an event without a time is in no window
        events, good = sifted(self._schema, {name: batch.column(column) for name, column in columns.items()})
        at = _whole(batch.column(names.at).cast(MOMENT_TYPE).cast(pa.int64()))
        epoch = _whole(batch.column(names.epoch).fill_null(0))
        window = at // self._length
        place = np.cumsum(good) - 1  # position of a row among the good events
        for number in np.unique(window).tolist():
            rows = np.flatnonzero(window == number)
            chosen = rows[good[rows]]
            counts = Counter({MetricKey("refused"): len(rows) - len(chosen)})
            if len(chosen):
                taken = events[place[chosen]]
                counts.update(value_counts(taken))
                first, after = (from_microseconds(each * self._length) for each in (number, number + 1))
                known = self._history.subscriptions(first, after)
                stretch = np.searchsorted(known.begins, at[chosen], side="right") - 1
                for e, s in sorted(set(zip(epoch[chosen].tolist(), stretch.tolist(), strict=True))):
                    some = taken[(epoch[chosen] == e) & (stretch == s)]
                    counts.update(self._delivery_counts(some, self._in_force(e, known, s), e))
            yield WindowCounts(number * self._length, int(at[rows].max()), +counts)

    def _delivery_counts(
        self, events: EventBatch, in_force: tuple[LandedPlan, list[RegistrationRow]] | None, epoch: int
    ) -> dict[MetricKey, int]:
        """What the plan of an epoch and the subscriptions in force make of events."""
        sent = {MetricKey("epoch", epoch): len(events)}
        if in_force is None:
            return sent | {MetricKey("unjudged"): len(events)}
        plan, rows = in_force
        if not rows:
            return sent
        placed = [PlacedFilter(HostId(row.host), row.filter) for row in rows]
        return sent | delivery_counts(plan.plan.index, placed, self._covers.covers(plan, rows), events)

    def _in_force(
        self, epoch: int, history: RegistrationHistory, stretch: int
    ) -> tuple[LandedPlan, list[RegistrationRow]] | None:
        """The plan and the subscriptions that were in force; None if the lake lacks one, or they are of a schema that
        has changed since.
        """
        try:
            plan = self._history.plan(epoch)
            if plan is None or not plan.plan.schema == history.schema == self._schema or stretch < 0:
                return None
            return plan, history.in_force(history.moments[stretch])
        except DamagedFile:  # one is, or has a filter that the schema does not allow any more
            return None


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

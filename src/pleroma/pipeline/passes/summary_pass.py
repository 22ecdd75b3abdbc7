"""The pass over events, on Spark or in this process: what `selection.traffic_summary` does, by tasks, merged as a tree.

Tasks run the same kernels on the same batches of columns. Their results are whole numbers and draws, which merge to the
same bits however the events were split. Events stay where they are. Where statistics are wanted, subscriptions are sent
with the tasks, or, if they are too many for that, are in a file that tasks read block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from pleroma.content import Filter, Schema
from pleroma.pipeline.passes.collected_events import CollectedEvents, FrameEvents, LakeEvents, events_here
from pleroma.pipeline.passes.partials import MERGE_TASKS, PARTIAL_SQL, PartialRows
from pleroma.pipeline.passes.stored_boxes import StoredBoxes
from pleroma.selection.traffic_summary import DRAWN_EVENTS, NumberedBatch, PartialSummary, SummaryPass, TrafficSummary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pleroma.pipeline.lake.lake import Lake

MAX_BROADCAST_BOXES = 200_000
"""Boxes that may be sent with every task; more boxes are written to a file."""


def gather(
    events: DataFrame,
    schema: Schema,
    subscriptions: Sequence[Filter],
    *,
    numbers: str | None = None,
    draw: int = DRAWN_EVENTS,
    seed: int = 0,
    statistics: bool = False,
    scratch: str | None = None,
) -> TrafficSummary:
    """A summary of the events of any DataFrame that has a column for each attribute.

    The column `numbers` (`id`, where there is one) tells apart events with the same content. `scratch` is a folder or
    URI where a file of boxes may be written while the pass runs, seen by all workers.
    """
    traffic = FrameEvents.of(events, schema, numbers)
    return gather_from(traffic, subscriptions, draw=draw, seed=seed, statistics=statistics, scratch=scratch)


def gather_landed(
    spark: SparkSession,
    lake: Lake,
    name: str,
    subscriptions: Sequence[Filter],
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    draw: int = DRAWN_EVENTS,
    seed: int = 0,
    statistics: bool = False,
) -> TrafficSummary:
    """A summary of the events that a lake has from `[start, end)`."""
    traffic = LakeEvents.of(spark, lake, name, start, end)
    return gather_from(traffic, subscriptions, draw=draw, seed=seed, statistics=statistics, scratch=traffic.scratch)


def gather_here(
    lake: Lake,
    name: str,
    subscriptions: Sequence[Filter],
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    draw: int = DRAWN_EVENTS,
    seed: int = 0,
    statistics: bool = False,
) -> TrafficSummary:
    """The summary that `gather_landed` makes, without Spark."""
    once = SummaryPass.of(lake.schema(name), subscriptions, draw, seed, statistics=statistics)
    return once.finished(once.over(events_here(lake, name, start, end)))


def gather_from(
    traffic: CollectedEvents,
    subscriptions: Sequence[Filter],
    *,
    draw: int = DRAWN_EVENTS,
    seed: int = 0,
    statistics: bool = False,
    scratch: str | None = None,
) -> TrafficSummary:
    """A summary of collected events. The `statistics` of dimensions are counted where techniques will be compared."""
    once = SummaryPass.of(traffic.schema, subscriptions, draw, seed, statistics=statistics)
    if once.boxes is None or once.boxes.count <= MAX_BROADCAST_BOXES or scratch is None:
        return once.finished(_merged(traffic, once))
    with StoredBoxes.written(once.boxes, scratch) as stored:
        return once.finished(_merged(traffic, replace(once, boxes=stored)))


@dataclass(frozen=True, slots=True)
class SummaryTask:
    once: SummaryPass
    pieces: PartialRows

    def __call__(self, part: int, batches: Iterator[NumberedBatch]) -> Iterator[pa.RecordBatch]:
        return self.pieces.rows(part, self.once.over(batches))


def _merged(traffic: CollectedEvents, once: SummaryPass) -> PartialSummary:
    """Merge partial results, by some tasks first and then here. Spark chooses how many tasks by the rows' bytes."""
    pieces = PartialRows(once.schema, None if once.boxes is None else once.boxes.count, once.draw)
    partials = traffic.map_parts(SummaryTask(once, pieces), PARTIAL_SQL)
    together = partials.repartition(partials["piece"], partials["part"] % MERGE_TASKS)
    return pieces.partial(together.mapInArrow(pieces.merged_rows, PARTIAL_SQL).toArrow().to_batches())

"""The learned tree, on Spark: a pass over the events for every level, which only counts them.

Tasks count by node, dimension and bin where the events are; the counts are whole numbers, so that they add up to the
same however the events were split, and the tree is the one that `learning.level_growth` grows in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from pleroma.arrays.types import Ints
from pleroma.content import Filter, Schema
from pleroma.content.event_draw import HeldOutEvents
from pleroma.evaluation.placement import Placement
from pleroma.evaluation.sample import Sample
from pleroma.index import TreeIndex
from pleroma.learning.bins import NodeBins
from pleroma.learning.fitting import Budget, fitted
from pleroma.learning.level_growth import LevelGrowth
from pleroma.learning.smoothing import FLOOR_SHARE
from pleroma.pipeline.passes.collected_events import CollectedEvents, FrameEvents, LakeEvents
from pleroma.pipeline.passes.partials import MERGE_TASKS
from pleroma.selection.traffic_summary import NumberedBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pleroma.pipeline.lake.lake import Lake

COUNTERS_PER_ROW = 65_536
"""Counters in one row on its way to be added up."""
COUNT_SQL = "part int, piece int, counts binary"
COUNT_COLUMNS = pa.schema([("part", pa.int32()), ("piece", pa.int32()), ("counts", pa.binary())])


def grown_on(
    events: DataFrame,
    schema: Schema,
    subscriptions: Sequence[Filter],
    bits: int,
    budget: Budget,
    *,
    numbers: str | None = None,
    **how: Unpack[GrowthOptions],
) -> TreeIndex:
    """A tree from the events of any DataFrame with a column for each attribute.

    The DataFrame is read once for every level of the tree: persist it if it is expensive to compute.
    """
    return grown_from(FrameEvents.of(events, schema, numbers), subscriptions, bits, budget, **how)


def grown_landed(
    spark: SparkSession,
    lake: Lake,
    name: str,
    subscriptions: Sequence[Filter],
    bits: int,
    budget: Budget,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    **how: Unpack[GrowthOptions],
) -> TreeIndex:
    """A tree from the events that a lake has from `[start, end)`."""
    return grown_from(LakeEvents.of(spark, lake, name, start, end), subscriptions, bits, budget, **how)


class GrowthOptions(TypedDict, total=False):
    """`held_out` events are not learned from; `level` is told after each pass how many there were.

    Without a placement, every subscription has a port of its own on one switch.
    """

    placement: Placement | None
    floor: float
    seed: int
    patient: bool
    held_out: HeldOutEvents | None
    level: Callable[[int], None]


def grown_from(
    traffic: CollectedEvents,
    subscriptions: Sequence[Filter],
    bits: int,
    budget: Budget,
    **how: Unpack[GrowthOptions],
) -> TreeIndex:
    sample, placement = Sample.without_events(traffic.schema, subscriptions), how.get("placement")
    if placement is not None:
        sample = sample.grouped(placement.homes)
    level = how.get("level")
    passes = 0

    def counted(bins: NodeBins) -> Ints:
        nonlocal passes
        found = traffic.map_parts(CountTask(bins, how.get("held_out")), COUNT_SQL)
        together = found.repartition(found["piece"], found["part"] % MERGE_TASKS)
        sums = summed(together.mapInArrow(added_up, COUNT_SQL).toArrow().to_batches())
        counts = np.zeros(bins.size, np.int64)
        for piece, each in sums.items():
            counts[piece * COUNTERS_PER_ROW : piece * COUNTERS_PER_ROW + len(each)] = each
        passes += 1
        if level is not None:
            level(passes)
        return counts

    leaves = budget.meant if how.get("patient", True) else 0
    growth = LevelGrowth(sample, bits, counted, how.get("floor", FLOOR_SHARE), how.get("seed", 0), leaves)
    return fitted(growth, budget, () if placement is None else placement.spread)[0]


@dataclass(frozen=True, slots=True)
class CountTask:
    """What an executor does: count the events of a part by node, dimension and bin. Held-out events are not counted."""

    bins: NodeBins
    held_out: HeldOutEvents | None

    def __call__(self, part: int, batches: Iterator[NumberedBatch]) -> Iterator[pa.RecordBatch]:
        counts = np.zeros(self.bins.size, np.int64)
        for batch in batches:
            events = batch.events if self.held_out is None else self.held_out.without(batch.events, batch.numbers)
            self.bins.counted(events.points(), counts)
        for piece in range(-(-len(counts) // COUNTERS_PER_ROW)):
            mine = counts[piece * COUNTERS_PER_ROW : (piece + 1) * COUNTERS_PER_ROW]
            if mine.any():
                yield _row(part, piece, mine)


def added_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up rows of the same piece; this runs on the executors."""
    for piece, counts in summed(batches).items():
        yield _row(0, piece, counts)


def summed(batches: Iterable[pa.RecordBatch]) -> dict[int, Ints]:
    sums: dict[int, Ints] = {}
    for batch in batches:
        for row in batch.to_pylist():
            mine = np.frombuffer(row["counts"], np.int64)
            sums[row["piece"]] = sums[row["piece"]] + mine if row["piece"] in sums else mine
    return sums


def _row(part: int, piece: int, counts: Ints) -> pa.RecordBatch:
    columns = [part], [piece], [counts.tobytes()]
    return pa.record_batch(
        [pa.array(each, field.type) for each, field in zip(columns, COUNT_COLUMNS, strict=True)], schema=COUNT_COLUMNS
    )

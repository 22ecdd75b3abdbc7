"""An audit of landed traffic: one pass over the events, on Spark or in this process, with the same numbers.

Each partition makes a tally of what its events did under the plans and subscriptions of their time, and tallies add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from pleroma.content import Schema
from pleroma.pipeline.audit.counterfactual import compare_with_best
from pleroma.pipeline.audit.findings import Audit, TallyRow, audit_of
from pleroma.pipeline.audit.tally import TALLY_COLUMNS, TALLY_COUNTERS, TALLY_KEYS, InForce, tallied
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.period import Period
from pleroma.pipeline.lake.reading import Reading, planned
from pleroma.pipeline.reported_counts import ReportedCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONE_MICROSECOND = timedelta(microseconds=1)
_REPORTED = ("delivered", "wasted")
_SQL = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", pa.float64(): "double"}


def audit_here(lake: Lake, name: str, period: Period) -> Audit:
    """Audit a period in this process, without looking for the best plan."""
    held = in_force(lake, name, period)
    partials = list(tallied(held, _batches(lake, "events", held.schema, period)))
    reported: dict[str, ReportedCounts] = defaultdict(ReportedCounts)
    for batch in _batches(lake, "reports", held.schema, period):
        columns = (batch.column(each).to_pylist() for each in ("subscription", *_REPORTED))
        for subscription, delivered, wasted in zip(*columns, strict=True):
            reported[subscription] += ReportedCounts(delivered, wasted)
    refused = (row for batch in _batches(lake, "refused", held.schema, period) for row in batch.to_pylist())
    return audit_of(name, period, held, _summed(partials), reported, {row["path"]: row["reason"] for row in refused})


def audit_on(
    spark: SparkSession,
    lake: Lake,
    name: str,
    period: Period,
    *,
    best: bool = False,
    bits: int | None = None,
    rules: int | None = None,
) -> Audit:
    """Audit a period on Spark; with `best`, also what the best plan within so many bits and rules would have saved."""
    from pyspark.sql import functions as sql

    held = in_force(lake, name, period)
    events = landed(spark, lake, "events", name, period)
    said = landed(spark, lake, "reports", name, period)
    sums = said.groupBy("subscription").agg(*(sql.sum(each).alias(each) for each in _REPORTED)).collect()
    reported = {subscription: ReportedCounts(delivered, wasted) for subscription, delivered, wasted in sums}
    refused = {row["path"]: row["reason"] for row in landed(spark, lake, "refused", name, period).collect()}
    found = audit_of(name, period, held, count_on(events, held), reported, refused)
    plans = [each for each in held.plans if each.since < period.end]
    if not best or found.events < 2 or not plans:  # one to learn from, one to judge by
        return found
    return replace(found, counterfactual=compare_with_best(events, held, plans[-1], bits=bits, rules=rules))


def in_force(lake: Lake, name: str, period: Period) -> InForce:
    """All plans of a schema, and every snapshot that is valid at some moment of the period."""
    schema = lake.schema(name)
    landed = lake.snapshots(name, period.start, period.end)
    if not landed:
        lake.subscriptions(name, period.end - ONE_MICROSECOND)  # raises that there is no snapshot
    return InForce(schema, tuple(lake.plans(name)), tuple(lake.snapshot(schema, each) for each in landed))


def count_on(events: DataFrame, held: InForce) -> list[TallyRow]:
    """The rows of the tally of all events: each partition makes one, and tallies add up."""
    from pyspark.sql import functions as sql

    described = ", ".join(f"{each.name} {_SQL[each.type]}" for each in TALLY_COLUMNS)
    partials = events.mapInArrow(partial(tallied, held), described)
    summed = partials.groupBy(*TALLY_KEYS).agg(*(sql.sum(each).alias(each) for each in TALLY_COUNTERS))
    return sorted(tuple(row) for row in summed.collect())


def landed(spark: SparkSession, lake: Lake, kind: str, name: str, period: Period) -> DataFrame:
    """Landed rows of a kind that happened in a period."""
    from pleroma.pipeline import register

    register(spark)
    options = {"path": lake.url, "schema": name, "kind": kind}
    options |= {"from": period.start.isoformat(), "to": period.end.isoformat()}
    return spark.read.format("pleroma").options(**options).load()


def _batches(lake: Lake, kind: str, schema: Schema, period: Period) -> Iterator[pa.RecordBatch]:
    reading = Reading.of(lake.url, schema, kind, period.start, period.end)
    return reading.batches(planned(lake, kind, schema.name, period.start, period.end))


def _summed(partials: Sequence[pa.RecordBatch]) -> list[TallyRow]:
    table = pa.Table.from_batches(partials, TALLY_COLUMNS)
    summed = table.group_by(list(TALLY_KEYS)).aggregate([(name, "sum") for name in TALLY_COUNTERS])
    columns = [*TALLY_KEYS, *(f"{name}_sum" for name in TALLY_COUNTERS)]
    return sorted(zip(*(summed[name].to_pylist() for name in columns), strict=True))

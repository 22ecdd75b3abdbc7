"""An audit of landed traffic: one pass over the events, on Spark or in this process, with the same numbers.

Each partition makes a tally of what its events did under the plans and subscriptions of their time, and tallies add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pleroma.content import Schema
from pleroma.pipeline.audit.counterfactual import compare_with_best
from pleroma.pipeline.audit.findings import Audit, TallyRow, audit_of
from pleroma.pipeline.audit.tally import CHUNK_EVENTS, TALLY_COLUMNS, TALLY_COUNTERS, TALLY_KEYS, InForce, tallied
from pleroma.pipeline.lake.lake import Lake, between
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns
from pleroma.pipeline.lake.moments import ONE_MICROSECOND
from pleroma.pipeline.lake.period import Period
from pleroma.pipeline.lake.subscription_history import conditions_on
from pleroma.pipeline.lake.table_files import Condition
from pleroma.pipeline.reported_counts import ReportedCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REPORTED = ("delivered", "wasted")
_SQL = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", pa.float64(): "double"}


def audit_here(lake: Lake, name: str, period: Period) -> Audit:
    """Audit a period in this process, without looking for the best plan."""
    held = in_force(lake, name, period)
    events, reports = _asked(lake, held.schema, period)[:2]
    columns = EventColumns.of(held.schema)
    names = [columns.at, columns.epoch, columns.rate, *attribute_columns(held.schema).values()]
    batches = (batch for rows in events.by_file(lake, names) for batch in rows.to_batches(max_chunksize=CHUNK_EVENTS))
    partials = list(tallied(held, batches))
    reported: dict[str, ReportedCounts] = defaultdict(ReportedCounts)
    for rows in reports.by_file(lake, ["subscription", *_REPORTED]):
        for subscription, delivered, wasted in zip(*(each.to_pylist() for each in rows.columns), strict=True):
            reported[subscription] += ReportedCounts(delivered, wasted)
    return audit_of(name, period, held, _summed(partials), reported, refused_in(lake, held.schema, period))


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
    counted = count_on(events, held)
    found = audit_of(name, period, held, counted, reported, refused_in(lake, held.schema, period))
    plans = [each for each in held.plans if each.since < period.end and each.plan.schema == held.schema]
    if not best or found.events < 2 or not plans:  # one to learn from, one to judge by
        return found
    last = period.end - ONE_MICROSECOND
    return replace(found, counterfactual=compare_with_best(events, held, plans[-1], last, bits=bits, rules=rules))


def in_force(lake: Lake, name: str, period: Period) -> InForce:
    """All plans of a schema, and every subscription that was in force at some moment of the period."""
    history = lake.subscription_history(name, period.start, period.end)
    return InForce(history.schema, tuple(lake.plans(name)), history)


def refused_in(lake: Lake, schema: Schema, period: Period) -> dict[str, str]:
    """Of the files that an audit of the period reads, those that were found damaged, and why; by path in the lake."""
    noted = {(each.table, each.path): each.reason for each in lake.refused()}
    if not noted:
        return {}
    asked = [*_asked(lake, schema, period), TableRows(lake.table("plans"), ())]
    files = ((each.table.definition.path, file.path) for each in asked for file in each.table.files(each.conditions))
    return {f"{table}/{path}": noted[table, path] for table, path in files if (table, path) in noted}


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


class TableRows(NamedTuple):
    """Rows of a table that an audit reads."""

    table: LakeTable
    conditions: tuple[Condition, ...]

    def by_file(self, lake: Lake, names: Sequence[str]) -> Iterator[pa.Table]:
        return self.table.by_file(self.conditions, names, lake.noting(self.table))


def _asked(lake: Lake, schema: Schema, period: Period) -> list[TableRows]:
    """The events of a period, its reports, and its subscriptions."""
    of_schema = Condition("schema", "==", schema.name)
    at = EventColumns.of(schema).at
    return [
        TableRows(lake.event_table(schema.name), between(at, period.start, period.end)),
        TableRows(lake.table("reports"), (of_schema, *between("at", period.start, period.end))),
        *(
            TableRows(lake.table("subscriptions"), each)
            for each in conditions_on(schema.name, period.start, period.end)
        ),
    ]


def _summed(partials: Sequence[pa.RecordBatch]) -> list[TallyRow]:
    table = pa.Table.from_batches(partials, TALLY_COLUMNS)
    summed = table.group_by(list(TALLY_KEYS)).aggregate([(name, "sum") for name in TALLY_COUNTERS])
    columns = [*TALLY_KEYS, *(f"{name}_sum" for name in TALLY_COUNTERS)]
    return sorted(zip(*(summed[name].to_pylist() for name in columns), strict=True))

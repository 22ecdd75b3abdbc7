"""An audit of landed traffic: one pass over the events, on Spark or in this process, with the same numbers.

Each partition makes a tally of what its events did under the plans and subscriptions of their time, and tallies add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from pleroma.content import Filter, Schema
from pleroma.pipeline.audit.counterfactual import BestPlanQuestion, compare_with_best
from pleroma.pipeline.audit.findings import Audit, TallyRow, audit_of
from pleroma.pipeline.audit.tally import TALLY_COLUMNS, TALLY_COUNTERS, TALLY_KEYS, InForce, tallied
from pleroma.pipeline.lake.lake import Lake, between
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns
from pleroma.pipeline.lake.period import Period
from pleroma.pipeline.lake.reading import Reading
from pleroma.pipeline.lake.registration_history import conditions_on
from pleroma.pipeline.lake.table_files import Condition
from pleroma.pipeline.lake_situation import situation_of
from pleroma.pipeline.passes.summary_pass import gather, gather_here
from pleroma.pipeline.spark_progress import followed
from pleroma.replanning.reported_counts import PACKET_COUNTERS, ReportedCounts, reported_counts
from pleroma.selection.traffic_summary import TrafficSummary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SQL = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", pa.float64(): "double"}


Steps = Callable[[str, float | None], AbstractContextManager[Callable[[float], None]]]
"""For those who wait: opened with what is done now and how much of it there is; what it gives is told of each part."""


@contextmanager
def in_silence(step: str, total: float | None) -> Iterator[Callable[[float], None]]:  # noqa: ARG001
    yield lambda _: None


def audit_here(
    lake: Lake, name: str, period: Period, best: BestPlanQuestion | None = None, steps: Steps = in_silence
) -> Audit:
    """Audit a period in this process; with a question, also what the best plan would have saved."""
    held = in_force(lake, name, period)
    read = _readings(lake, held.schema, period)
    events, reports = read[:2]
    columns = EventColumns.of(held.schema)
    names = [columns.at, columns.epoch, columns.rate, *attribute_columns(held.schema).values()]
    with steps("judging events", sum(file.rows or 0 for file in events.files)) as advance:
        partials = list(tallied(held, _told(events.batches(names), advance)))
    reported: dict[str, ReportedCounts] = defaultdict(ReportedCounts)
    with steps("adding up reports", sum(file.rows or 0 for file in reports.files)) as advance:
        for batch in _told(reports.batches(["subscription", *PACKET_COUNTERS]), advance):
            for subscription, *counted in zip(*(each.to_pylist() for each in batch.columns), strict=True):
                reported[subscription] += reported_counts(*counted)
    found = audit_of(name, period, held, _summed(partials), reported, _refused(lake, read))

    def gathered(wanted: Sequence[Filter]) -> TrafficSummary:
        with steps("drawing events for the best plan", None):
            return gather_here(lake, name, wanted, start=period.start, end=period.end, seed=best.seed if best else 0)

    return _with_best(lake, found, held, best, gathered, steps)


def audit_on(
    spark: SparkSession,
    lake: Lake,
    name: str,
    period: Period,
    best: BestPlanQuestion | None = None,
    steps: Steps = in_silence,
) -> Audit:
    """Audit a period on Spark; with a question, also what the best plan would have saved."""
    from pyspark.sql import functions as sql

    held = in_force(lake, name, period)
    events = landed(spark, lake, "events", name, period)
    said = landed(spark, lake, "reports", name, period)
    told = said.withColumn("wanted", sql.coalesce("wanted", "delivered"))
    with steps("adding up reports", 1) as advance, followed(spark, advance):
        sums = told.groupBy("subscription").agg(*(sql.sum(each).alias(each) for each in PACKET_COUNTERS)).collect()
    reported = {subscription: ReportedCounts(*counted) for subscription, *counted in sums}
    with steps("judging events", 1) as advance, followed(spark, advance):
        counted = count_on(events, held)
    refused = _refused(lake, _readings(lake, held.schema, period))
    found = audit_of(name, period, held, counted, reported, refused)

    def gathered(wanted: Sequence[Filter]) -> TrafficSummary:
        numbers = EventColumns.of(held.schema).id
        with steps("drawing events for the best plan", 1) as advance, followed(spark, advance):
            return gather(events, held.schema, wanted, numbers=numbers, seed=best.seed if best else 0)

    return _with_best(lake, found, held, best, gathered, steps)


def _told(batches: Iterable[pa.RecordBatch], advance: Callable[[float], None]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        advance(len(batch))


def _with_best(
    lake: Lake,
    found: Audit,
    held: InForce,
    best: BestPlanQuestion | None,
    gathered: Callable[[Sequence[Filter]], TrafficSummary],
    steps: Steps,
) -> Audit:
    """The audit with the best plan for the last situation of the period with subscriptions, if that is asked for."""
    plans = [each for each in held.plans if each.since < found.period.end and each.plan.schema == held.schema]
    if best is None or found.events < 2 or not plans:  # one to learn from, one to judge by
        return found
    moment = held.history.last_in_force(found.period.end)
    if moment is None:
        return found
    situation = situation_of(lake, found.schema, moment, star=best.star)
    if not situation.filters:
        return found
    drawn = gathered(situation.filters)
    with steps("looking for the best plan", None):
        return replace(found, counterfactual=compare_with_best(drawn, situation, plans[-1], best))


def in_force(lake: Lake, name: str, period: Period) -> InForce:
    """All plans of a schema, and every subscription that was in force at some moment of the period."""
    history = lake.subscription_history(name, period.start, period.end)
    return InForce(history.schema, tuple(lake.plans(name)), history)


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


def _readings(lake: Lake, schema: Schema, period: Period) -> list[Reading]:
    """What an audit of a period reads: its events, its reports, its subscriptions, and all plans."""
    of_schema = Condition("schema", "==", schema.name)
    subscriptions = tuple(conditions_on(schema.name, period.start, period.end))
    return [
        Reading.of(lake, lake.event_table(schema.name), between(EventColumns.of(schema).at, period.start, period.end)),
        Reading.of(lake, lake.table("reports"), (of_schema, *between("at", period.start, period.end))),
        *Reading.by(lake, lake.table("subscriptions"), subscriptions),
        Reading.of(lake, lake.table("plans")),
    ]


def _refused(lake: Lake, read: Sequence[Reading]) -> dict[str, str]:
    """Of files that were read, those that were found damaged and left out, by their paths in the lake, and why."""
    noted = {(each.table, each.path): each.reason for each in lake.refused()}
    files = ((each.reader.table, file.path) for each in read for file in each.files)
    return {f"{table}/{path}": noted[table, path] for table, path in files if (table, path) in noted}


def _summed(partials: Sequence[pa.RecordBatch]) -> list[TallyRow]:
    table = pa.Table.from_batches(partials, TALLY_COLUMNS)
    summed = table.group_by(list(TALLY_KEYS)).aggregate([(name, "sum") for name in TALLY_COUNTERS])
    columns = [*TALLY_KEYS, *(f"{name}_sum" for name in TALLY_COUNTERS)]
    return sorted(zip(*(summed[name].to_pylist() for name in columns), strict=True))

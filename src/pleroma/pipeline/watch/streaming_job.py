"""The streaming job: landed events in, closed windows out, and now and then a plan for the controller.

Executors count events by window (`window_counts`), Spark adds the counts up and knows by its watermark when a window is
complete, and the driver publishes it and decides (`replanner`). Spark's checkpoint holds what was read and which
windows are open, the lake holds what was published and decided, so a job that is started again with the same checkpoint
goes on where it was.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pleroma.content import Filter
from pleroma.errors import LakeError, PleromaError
from pleroma.pipeline import register
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.moments import from_microseconds
from pleroma.pipeline.watch.checkpoint import JobCheckpoint, usual_checkpoint
from pleroma.pipeline.watch.plan_holder import LakePlanHolder
from pleroma.pipeline.watch.replanner import OnEntry, Replanner
from pleroma.pipeline.watch.window_counts import METRIC_SQL, CountWindows
from pleroma.replanning.decisions import Decision, WatchSettings
from pleroma.replanning.plan_in_force import PlanHolder
from pleroma.replanning.windows import MetricKey, TrafficWindow
from pleroma.selection.traffic_summary import TrafficSummary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Decision", "StreamingJob", "TrafficWindow", "WatchSettings", "start_watching"]

STREAM_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",  # for the sums: a few thousand whole numbers a window
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # for the kernels
    "spark.sql.session.timeZone": "UTC",
}
STOP_SECONDS = 60.0
"""How long stopping waits for the batch that is being processed."""
AWAIT_SECONDS = 3600.0
"""The longest single wait for the end of a query; longer waits are made of several."""
MAX_FAILURES, FAILURE_SPAN_SECONDS = 3, 600.0
"""A job that fails more often than this within this time is given up."""

log = logging.getLogger("pleroma.pipeline")


class StreamingJob:
    """A query that runs until it is stopped, or has seen everything that was there.

    `wait` restarts a query that failed, a few times: nothing is lost by that, nor done twice.
    """

    def __init__(self, begin: Callable[[], StreamingQuery]) -> None:
        self._begin = begin
        self._failures: list[float] = []
        self.query = begin()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the job, at most so long: whether it has ended. Raises if it failed too often."""
        from pyspark.errors import StreamingQueryException

        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = AWAIT_SECONDS if end is None else min(max(end - time.monotonic(), 0.001), AWAIT_SECONDS)
            try:
                if self.query.awaitTermination(left):  # type: ignore[arg-type]  # it takes parts of seconds too
                    return True
            except StreamingQueryException as error:
                self._restart(error)
            if end is not None and time.monotonic() >= end:
                return False

    def _restart(self, error: Exception) -> None:
        now = time.monotonic()
        self._failures = [moment for moment in self._failures if now - moment < FAILURE_SPAN_SECONDS] + [now]
        if len(self._failures) > MAX_FAILURES:
            raise LakeError(f"the job failed: {_cause(error)}", field="watch") from error
        log.warning("the job failed and is begun again: %s", _cause(error))
        self.query = self._begin()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop after the batch that is being processed, or after so many seconds."""
        end = time.monotonic() + seconds
        while self.query.isActive and self.query.status["isTriggerActive"] and time.monotonic() < end:
            time.sleep(0.05)
        self.query.stop()

    @property
    def late(self) -> int:
        """How many partial sums came too late for their windows and were left out."""
        steps = (step.get("stateOperators") or [] for step in self.query.recentProgress)
        return sum(each.get("numRowsDroppedByWatermark", 0) for operators in steps for each in operators)


def start_watching(
    spark: SparkSession,
    lake: Lake,
    schema: str,
    settings: WatchSettings,
    controller: PlanHolder | None,
    on_entry: OnEntry = lambda _: None,
    *,
    checkpoint: str | None = None,
    once: bool = False,
) -> StreamingJob:
    """Start to watch a schema's traffic. Without a controller it is a dry run: better plans are found, not adopted.

    `on_entry` is called from a thread of the driver, once for each window and each decision. With `once` the job ends
    when it has read everything that has landed so far.
    """
    progress = JobCheckpoint(checkpoint or usual_checkpoint(lake.url, schema))
    progress.claim({"lake": lake.url, "schema": schema, "window": settings.window})
    known = lake.schema(schema)
    register(spark)

    def gather(start: datetime, end: datetime, subscriptions: Sequence[Filter]) -> TrafficSummary:
        from pleroma.pipeline.passes.summary_pass import gather_landed

        return gather_landed(
            spark,
            lake,
            schema,
            subscriptions,
            start=start,
            end=end,
            draw=settings.draw,
            seed=settings.seed,
            statistics=settings.compare,
        )

    def begin() -> StreamingQuery:
        progress.clear_unbegun()
        holder = LakePlanHolder(lake, schema) if controller is None else controller
        replanner = Replanner(lake, known, settings, holder, gather, on_entry, dry=controller is None)
        landed = spark.readStream.format("pleroma").options(path=lake.url, schema=schema).load()
        counting = CountWindows(lake.url, schema, settings.length // timedelta(microseconds=1))
        writer = _summed(landed, counting, settings).writeStream.outputMode("append")
        writer = writer.queryName(f"pleroma watch {schema}").option("checkpointLocation", progress.url)
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": _interval(settings.trigger)}
        with _set(spark):
            return writer.foreachBatch(_closing(replanner)).trigger(**trigger).start()

    return StreamingJob(begin)


@contextmanager
def _set(spark: SparkSession) -> Iterator[None]:
    """Apply `STREAM_SETTINGS` while a query starts: it takes the settings of its session along.

    It cannot have a session of its own: Spark lets a second one neither see nor register a source that the first has.
    """
    before = {name: spark.conf.get(name, None) for name in STREAM_SETTINGS}
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def _summed(landed: DataFrame, counting: CountWindows, settings: WatchSettings) -> DataFrame:
    """Counts by window and metric, of each window as soon as it is complete."""
    from pyspark.sql import functions as f

    return (
        landed.mapInArrow(counting, METRIC_SQL)
        .withWatermark("at", _interval(settings.lateness))
        .groupBy(f.window("at", _interval(settings.window)), "metric", "number", "bin")
        .agg(f.sum("value").alias("value"))
        .select(f.unix_micros("window.start").alias("start"), "metric", "number", "bin", "value")
    )


def _closing(replanner: Replanner) -> Callable[[DataFrame, int], None]:
    def close(frame: DataFrame, _: int) -> None:
        windows: dict[datetime, dict[MetricKey, int]] = defaultdict(dict)
        for start, metric, number, place, value in frame.collect():
            windows[from_microseconds(start)][MetricKey(metric, number, place)] = value
        replanner.close_windows(windows)

    return close


def _interval(seconds: float) -> str:
    return f"{round(seconds * 1_000_000)} microseconds"


def _cause(error: Exception) -> str:
    """The line of an error message that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("pleroma.errors.")]
    inner = error.__cause__
    if isinstance(inner, PleromaError):
        return str(inner)
    return (ours[-1].partition(": ")[2] if ours else lines[0]) if lines else type(error).__name__

"""How far Spark's work is, for a progress bar: tasks done of tasks known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_POLL_SECONDS = 0.2


@contextmanager
def followed(spark: SparkSession, advance: Callable[[float], None]) -> Iterator[None]:
    """While the block runs, `advance` is called with the share of the work that was added; in all, 1."""
    told = 0.0

    def tell(done: int, known: int) -> None:
        nonlocal told
        share = min(done / known, 1.0) if known else 0.0
        if share > told:
            advance(share - told)
            told = share

    with (
        _connected(spark, tell)
        if hasattr(spark, "registerProgressHandler") and _is_remote(spark)
        else _asked(spark, tell)
    ):
        yield
    advance(1.0 - told)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def _connected(spark: Any, tell: Callable[[int, int], None]) -> Iterator[None]:
    """By Spark Connect, the server reports progress."""

    def handler(stages: Any, **_: Any) -> None:
        tell(sum(stage.num_completed_tasks for stage in stages), sum(stage.num_tasks for stage in stages))

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


@contextmanager
def _asked(spark: SparkSession, tell: Callable[[int, int], None]) -> Iterator[None]:
    """In the driver's own process, Spark's status is polled."""
    over = Event()
    tracker = spark.sparkContext.statusTracker()

    def ask() -> None:
        while not over.wait(PROGRESS_POLL_SECONDS):
            stages = [
                tracker.getStageInfo(stage)
                for job in tracker.getActiveJobsIds()
                if (info := tracker.getJobInfo(job)) is not None
                for stage in info.stageIds
            ]
            known = [stage for stage in stages if stage is not None]
            tell(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))

    asking = Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()

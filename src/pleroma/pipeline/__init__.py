"""From traffic to a better plan, on Spark: what is collected, how it is read, tuned on, watched and audited.

Importing this needs neither Spark nor Arrow; what needs them imports them when it is used.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "register"]


def register(spark: SparkSession) -> None:
    """Let a session read lakes: `spark.read.format("pleroma")` and `spark.readStream.format("pleroma")`."""
    from pleroma.pipeline.lake.spark_source import PleromaSource

    spark.dataSource.register(PleromaSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def read(
    spark: SparkSession,
    lake: str,
    schema: str | None = None,
    *,
    kind: str = "events",
    start: datetime | None = None,
    end: datetime | None = None,
) -> DataFrame:
    """The rows of a kind within `[start, end)` that a lake has now, in the fastest way that there is.

    They are those of `spark.read.format("pleroma")`, read by Spark's own Parquet reader where Spark knows the store.
    """
    from pleroma.pipeline.lake.lake_query import LakeQuery
    from pleroma.pipeline.lake.parquet_frame import parquet_frame

    query = LakeQuery(lake, schema, kind, start, end)
    frame = parquet_frame(spark, query)
    if frame is None:
        register(spark)
        frame = spark.read.format("pleroma").options(**query.options()).load()
    return frame

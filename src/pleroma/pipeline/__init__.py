"""From traffic to a better plan, on Spark: what is collected, how it is read, tuned on, watched and audited.

Importing this needs neither Spark nor Arrow; what needs them imports them when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Let a session read lakes: `spark.read.format("pleroma")` and `spark.readStream.format("pleroma")`."""
    from pleroma.pipeline.lake.spark_source import PleromaSource

    spark.dataSource.register(PleromaSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")

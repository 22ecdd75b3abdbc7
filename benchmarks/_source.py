"""How long Spark takes for a query over events of a lake by each way of reading, against its own Parquet reader."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pleroma.pipeline import read, register
from pleroma.pipeline.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPEATS = 5


def measure(spark: SparkSession, lake: Lake, name: str) -> dict[str, Any]:
    """Time of ours / time of `spark.read.parquet` of the same files: the greatest value of each column, or of two.

    `read` is `pleroma.pipeline.read`, `format` is `spark.read.format("pleroma")`.
    """
    register(spark)
    table = lake.event_table(name)
    paths = [f"file://{Path(table.url, file.path)}" for file in table.files()]
    columns = [each.name for each in table.definition.columns if each.name not in table.definition.partitioned_by]
    two = columns[-2:]
    theirs = spark.read.parquet(*paths)
    ours = read(spark, lake.url, name)
    source = spark.read.format("pleroma").options(path=lake.url, schema=name)
    fields = {field.name: field for field in ours.schema.fields}

    def by_source(names: list[str]) -> DataFrame:
        from pyspark.sql.types import StructType

        return source.schema(StructType([fields[each] for each in names])).load()

    frames = {
        "parquet": theirs.select(columns),
        "read": ours.select(columns),
        "format": by_source(columns),
        "parquet, two": theirs.select(two),
        "read, two": ours.select(two),
        "format, two": by_source(two),
    }
    seconds = _seconds(frames)
    all_columns, two_columns = seconds["parquet"], seconds["parquet, two"]
    return {
        "source_ratio": {how: round(seconds[how] / all_columns, 2) for how in ("read", "format")},
        "source_ratio_two_columns": {how: round(seconds[f"{how}, two"] / two_columns, 2) for how in ("read", "format")},
        "parquet_s": {"all columns": round(all_columns, 2), "two columns": round(two_columns, 2)},
    }


def _seconds(frames: dict[str, DataFrame]) -> dict[str, float]:
    """The shortest of several runs, which take turns; one before is not counted, in which Java compiles the query.

    Every run is a query of its own: a query that is asked again keeps what its first stage made, and reads no file.
    """
    from pyspark.sql import functions as sql

    found: dict[str, list[float]] = {how: [] for how in frames}
    for _ in range(1 + REPEATS):
        for how, frame in frames.items():
            start = time.perf_counter()
            frame.agg(*(sql.max(name) for name in frame.columns)).collect()
            found[how].append(time.perf_counter() - start)
    return {how: min(taken[1:]) for how, taken in found.items()}

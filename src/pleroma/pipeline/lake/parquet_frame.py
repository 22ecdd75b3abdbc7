"""Rows of a lake as a DataFrame of Spark's own Parquet reader: the Delta log says which files, Spark does the rest.

Nothing goes through Python then, and Spark reads only columns that a query needs. Files that are known to be damaged,
or have not the size that the log says, are left out. One that turns out to be damaged while it is read is an error of
Spark, while `format("pleroma")` leaves it out and goes on.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from pleroma.errors import DamagedFile
from pleroma.pipeline.lake.lake_query import LakeQuery
from pleroma.pipeline.lake.reading import Reading
from pleroma.pipeline.lake.store import file_system, is_local
from pleroma.pipeline.lake.table_files import COMPARE, Condition, TableFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def parquet_frame(spark: SparkSession, query: LakeQuery) -> DataFrame | None:
    """The rows; None if this Spark knows no way to the store, or would not understand the names of folders."""
    from pyspark.sql.pandas.types import from_arrow_schema

    readings = query.readings()
    if not _is_reached(spark, query.lake.url) or not all(_is_plain(file) for each in readings for file in each.files):
        return None
    schema = from_arrow_schema(query.columns)
    frames = [_frame(spark, each, schema) for each in readings if each.files]
    return reduce(lambda one, two: one.union(two), frames) if frames else spark.createDataFrame([], schema)


def _frame(spark: SparkSession, reading: Reading, schema: Any) -> DataFrame:
    root = _uri(reading.reader.url)
    paths = [f"{root}/{path}" for path in _sound(reading)]
    reader = spark.read.schema(schema).options(basePath=root, __globPaths__="false")
    frame = reader.parquet(*paths) if paths else spark.createDataFrame([], schema)
    chosen = frame.select(*(_quoted(name) for name in schema.names))
    conditions = [_column(each) for each in reading.reader.conditions]
    return chosen.where(reduce(operator.and_, conditions)) if conditions else chosen


def _sound(reading: Reading) -> Iterator[str]:
    """The paths of files that are not known to be damaged. In a folder their sizes are looked at."""
    lake, table = LakeQuery(reading.lake, kind="refused").lake, reading.reader
    refused = {each.path for each in lake.refused() if each.table == table.table}
    system, root = file_system(table.url)
    for file in reading.files:
        if file.path in refused:
            continue
        if is_local(table.url):
            size = system.get_file_info(f"{root}{file.path}").size
            if size != file.size:
                reason = f"has {size or 0} bytes, and the log says {file.size}"
                lake.refuse(table.table, file.path, DamagedFile(reason, field=file.path))
                continue
        yield file.path


def _is_plain(file: TableFile) -> bool:
    """Whether its path says what partition it is of, without codes for letters: Spark and Delta have their own each."""
    return file.path.split("/")[:-1] == [f"{name}={value}" for name, value in file.partition]


def _is_reached(spark: SparkSession, url: str) -> bool:
    """Whether Spark has a file system for the URL; by Spark Connect that is not known."""
    if is_local(url):
        return True
    java = getattr(spark, "_jvm", None)
    if java is None:
        return False
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        java.org.apache.hadoop.fs.FileSystem.getFileSystemClass(url.partition("://")[0], settings)
    except Exception:  # what Java throws, which has a class of py4j's
        return False
    return True


def _uri(url: str) -> str:
    return f"file://{url}" if is_local(url) else url


def _column(condition: Condition) -> Column:
    from pyspark.sql import functions as sql

    column = sql.col(_quoted(condition.column))
    if condition.comparison == "in":
        return column.isin(list(condition.value))
    found: Column = COMPARE[condition.comparison](column, sql.lit(condition.value))
    return found


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

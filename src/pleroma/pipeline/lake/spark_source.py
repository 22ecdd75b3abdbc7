"""A lake as a source of Spark: `spark.read.format("pleroma")` and `spark.readStream.format("pleroma")`.

Options: `path` (the lake), `kind` (events, which is the default, or any other table), `schema` (its name; needed for
events), `from` and `to` (moments in ISO form: what happened in `[from, to)`), and for streams `maxFilesPerTrigger`.

The driver reads the Delta log and gives each task a list of files; a task keeps no state. A stream's offset is the
number of the newest landing that it has seen. Rows keep that number when files are merged, so a stream that comes back
finds the rows it has not seen, in whatever files they are by then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pleroma.errors import LakeError, PleromaError, UnknownName
from pleroma.pipeline.lake.lake_query import STREAMED_KINDS, LakeQuery
from pleroma.pipeline.lake.lake_table import LANDING
from pleroma.pipeline.lake.pushed_filters import split
from pleroma.pipeline.lake.reading import Reading
from pleroma.pipeline.lake.table_files import Condition

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _in_one_line(plan: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have Spark tell a user's mistake without the traceback of the process of Spark's that noticed it.

    That process does nothing but plan reads from data sources.
    """

    @wraps(plan)
    def told(*arguments: _P.args, **options: _P.kwargs) -> _R:
        try:
            return plan(*arguments, **options)
        except PleromaError:
            if any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ):
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return told


class PleromaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pleroma"

    @_in_one_line
    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(LakeQuery.of(self.options).columns)

    @_in_one_line
    def reader(self, schema: StructType) -> DataSourceReader:
        return LakeReader(LakeQuery.of(self.options), schema.fieldNames())

    @_in_one_line
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        query = LakeQuery.of(self.options)
        if query.kind not in STREAMED_KINDS:
            raise LakeError(f"a stream is of {' or '.join(STREAMED_KINDS)}", field="kind", value=query.kind)
        return LakeStream(query, schema.fieldNames())


class Portion(InputPartition):
    """What one task reads."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(None)
        self.reading = reading


class LakeReader(DataSourceReader):
    """`names` are the columns that are wanted: all, or fewer if the reader was given a schema."""

    def __init__(self, query: LakeQuery, names: Sequence[str]) -> None:
        self.query = query
        self.names = _known(names, query)
        self.pushed: tuple[Condition, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        self.pushed, left = split(filters, self.query.columns)
        return iter(left)

    def partitions(self) -> Sequence[InputPartition]:
        return _portions(self.query, self.pushed)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(partition, self.names)


class LakeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, query: LakeQuery, names: Sequence[str]) -> None:
        self.query = query
        self.names = _known(names, query)
        self._last: int | None = None
        """The newest landing of a stream that ends with what is available now."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {LANDING: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        after = start[LANDING]
        newest = self._newest() if self._last is None else self._last
        if isinstance(limit, ReadMaxFiles):
            ends = sorted(each.most for each in self.query.spans(self._between(after, newest)))
            newest = min([newest, *ends[limit.max_files - 1 : limit.max_files]])
        return {LANDING: max(newest, after)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.query.max_files is None else ReadMaxFiles(self.query.max_files)

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return {LANDING: self._newest()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._newest()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _portions(self.query, self._between(start[LANDING], end[LANDING]))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(partition, self.names)

    def _newest(self) -> int:
        return max(self.query.table.landed(LANDING), 0)

    def _between(self, after: int, last: int) -> tuple[Condition, ...]:
        column = self.query.landing
        return Condition(column, ">", after), Condition(column, "<=", last)


def _portions(query: LakeQuery, conditions: Sequence[Condition]) -> list[InputPartition]:
    return [Portion(part) for reading in query.readings(conditions) for part in reading.portions()]


def _read(partition: InputPartition, names: Sequence[str]) -> Iterator[Any]:
    # without files there is one partition all the same, which Spark makes by itself
    return partition.reading.batches(names) if isinstance(partition, Portion) else iter(())


def _known(names: Sequence[str], query: LakeQuery) -> tuple[str, ...]:
    there = query.columns.names
    for name in names:
        if name not in there:
            raise UnknownName("column", name, there)
    return tuple(names)

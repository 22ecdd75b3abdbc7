"""Collected events that a pass goes over, wherever they are: rows of any DataFrame, or the files of a lake.

Tasks read the files of a lake themselves, without Java in between. Either way a task sees batches of checked events,
large enough for the kernels; events outside the domains are counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from pleroma.content import Schema
from pleroma.content.arrow_columns import sifted
from pleroma.errors import TuningError
from pleroma.pipeline.lake.lake_query import LakeQuery
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns
from pleroma.pipeline.lake.reading import Reading
from pleroma.selection.traffic_summary import NumberedBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pleroma.pipeline.lake.lake import Lake

KERNEL_BATCH_ROWS = 32_768
"""Rows that the kernels get at once; smaller batches of Arrow are put together first."""


class PartWork(Protocol):
    """What a task does with the events of its part, of which there may be none. It is sent to the executors."""

    def __call__(self, part: int, batches: Iterator[NumberedBatch]) -> Iterator[pa.RecordBatch]: ...


class CollectedEvents(Protocol):
    """Events in parts. They have numbers if there is a column that tells equal events apart."""

    @property
    def schema(self) -> Schema: ...

    def map_parts(self, work: PartWork, sql: str) -> DataFrame:
        """Rows with these columns: what `work` makes of every part."""


@dataclass(frozen=True, slots=True)
class FrameEvents:
    """A DataFrame with a column for each attribute."""

    frame: DataFrame
    schema: Schema
    numbers: str | None

    @classmethod
    def of(cls, frame: DataFrame, schema: Schema, numbers: str | None = None) -> FrameEvents:
        """`numbers` is a column of whole numbers; `id`, where there is one."""
        if numbers is None and "id" in frame.columns and "id" not in schema.names:
            numbers = "id"
        return cls(frame, schema, numbers)

    def map_parts(self, work: PartWork, sql: str) -> DataFrame:
        columns = {name: name for name in self.schema.names}
        chosen = self.frame.select(*_names(columns, self.numbers))
        return chosen.mapInArrow(_FramePart(work, _RowCheck(self.schema, columns, self.numbers)), sql)


@dataclass(frozen=True, slots=True)
class LakeEvents:
    """The files of a lake, by task."""

    spark: SparkSession
    schema: Schema
    portions: tuple[Reading, ...]

    @classmethod
    def of(
        cls, spark: SparkSession, lake: Lake, name: str, start: datetime | None = None, end: datetime | None = None
    ) -> LakeEvents:
        """What a lake has from `[start, end)`."""
        reading = _events_reading(lake, name, start, end)
        return cls(spark, lake.schema(name), tuple(reading.portions()))

    @property
    def scratch(self) -> str:
        """The folder of the lake for files that are needed while a pass runs."""
        return f"{self.portions[0].lake}/scratch"

    def map_parts(self, work: PartWork, sql: str) -> DataFrame:
        tasks = self.spark.range(0, len(self.portions), 1, len(self.portions))
        return tasks.mapInArrow(_FileParts(work, _RowCheck.landed(self.schema), self.portions), sql)


def events_here(
    lake: Lake, name: str, start: datetime | None = None, end: datetime | None = None
) -> Iterator[NumberedBatch]:
    """What a lake has from `[start, end)`, read in this process."""
    reading, check = _events_reading(lake, name, start, end), _RowCheck.landed(lake.schema(name))
    return check.events(reading.batches(_names(check.columns, check.numbers)))


def _events_reading(lake: Lake, name: str, start: datetime | None, end: datetime | None) -> Reading:
    (reading,) = LakeQuery(lake.url, name, start=start, end=end).readings()
    if not reading.files:
        raise TuningError(f"the lake has no events of {name} there", field="schema", value=name)
    return reading


@dataclass(frozen=True, slots=True)
class _FramePart:
    work: PartWork
    check: _RowCheck

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context else 0
        yield from self.work(part, self.check.events(batches))


@dataclass(frozen=True, slots=True)
class _FileParts:
    """Gets rows with numbers of portions, and reads the files of these."""

    work: PartWork
    check: _RowCheck
    portions: tuple[Reading, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = _names(self.check.columns, self.check.numbers)
        for tasks in batches:
            for part in tasks.column(0).to_pylist():
                yield from self.work(part, self.check.events(self.portions[part].batches(names)))


@dataclass(frozen=True, slots=True)
class _RowCheck:
    """Makes events of rows, which have a column for each attribute and perhaps one of numbers."""

    schema: Schema
    columns: Mapping[str, str]
    numbers: str | None

    @classmethod
    def landed(cls, schema: Schema) -> _RowCheck:
        """For the rows of an event table."""
        return cls(schema, attribute_columns(schema), EventColumns.of(schema).id)

    def events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[NumberedBatch]:
        for rows in _joined(batches):
            events, kept = sifted(self.schema, {name: rows.column(each) for name, each in self.columns.items()})
            refused = len(kept) - len(events)
            if self.numbers is None:
                yield NumberedBatch(events, None, refused)
            else:
                all_of_them = np.asarray(rows.column(self.numbers).cast(pa.int64()).to_numpy(zero_copy_only=False))
                yield NumberedBatch(events, all_of_them[kept] if refused else all_of_them, refused)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The same rows in batches that are large enough for the kernels."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(each.num_rows for each in held) >= KERNEL_BATCH_ROWS:
            yield _one(held)
            held = []
    if held:
        yield _one(held)


def _one(held: Sequence[pa.RecordBatch]) -> Any:
    return held[0] if len(held) == 1 else pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def _names(columns: Mapping[str, str], numbers: str | None) -> list[str]:
    return [*columns.values(), *([] if numbers is None else [numbers])]

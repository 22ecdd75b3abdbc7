"""The files of a table: which of them can have rows that are asked for, and what rows a file has.

The Delta log says of each file which partition it is of and between which values its columns lie, so most files that
cannot have such rows are never opened. Choosing files happens where a query is planned; a file may be read by another
process on another machine, which needs no log.
"""

from __future__ import annotations

import errno
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import reduce
from itertools import starmap
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pleroma.errors import DamagedFile, LakeError
from pleroma.pipeline.lake.moments import FIRST_MOMENT
from pleroma.pipeline.lake.store import is_local, is_of_store, reason_of

Comparison = Literal["==", "<", "<=", ">", ">=", "in"]
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SQL = {"==": "=", "in": "IN", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NOT_GIVEN = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES)
"""What a system says that has no room at the moment, or keeps a file from this user."""
_OUTSIDE = re.compile(r"^/|^[a-z0-9]+://|(^|/)\.\.(/|$)")
"""Of the paths that a log may say, those that lead out of the table."""
_STATISTICS_PRECISION = timedelta(milliseconds=1)
"""The log cuts off the rest of a moment: a greatest value may be greater by less than this."""


class Condition(NamedTuple):
    """What rows are asked for: those whose column compares so to a value, or is one of several values."""

    column: str
    comparison: Comparison
    value: Any

    def expression(self, column_type: Any) -> Any:
        if self.comparison == "in":
            return pc.field(self.column).isin(pa.array(list(self.value), column_type))
        return COMPARE[self.comparison](pc.field(self.column), pa.scalar(self.value, column_type))

    def holds(self, value: Any) -> bool:
        """Whether it is true of a value; nothing is true of null."""
        if value is None:
            return False
        return value in self.value if self.comparison == "in" else bool(COMPARE[self.comparison](value, self.value))


def sql(conditions: Sequence[Condition]) -> str:
    """Conditions as a predicate of SQL, for the library."""
    parts = (f'"{each.column}" {_SQL[each.comparison]} {_literal(each.value)}' for each in conditions)
    return " AND ".join(parts) or "TRUE"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"'{value.isoformat(timespec='microseconds')}'"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_literal, value))})"
    return repr(value)


class TableFile(NamedTuple):
    path: str
    """From the root of its table."""
    size: int
    rows: int | None
    partition: tuple[tuple[str, str | None], ...]
    """The columns that the file does not have, with the value that all its rows have there."""


class ValueSpan(NamedTuple):
    """Between which values a column of a file lies. Moments are cut to milliseconds: `most` may be a little greater."""

    least: Any
    most: Any
    rows: int


class FileReader(NamedTuple):
    """Reads files of a table. It can be sent to other processes, since it holds values alone."""

    url: str
    """Of the table."""
    table: str
    """The table's path in the lake."""
    schema: Any
    conditions: tuple[Condition, ...] = ()

    def rows(self, system: Any, root: str, file: TableFile, names: Sequence[str] | None = None) -> Any:
        """The rows of a file that satisfy the conditions, all columns or some. DamagedFile if the file is damaged.

        A column that the file lacks, because the table got it later, is null.
        """
        wanted = list(self.schema.names if names is None else names)
        fixed = dict(file.partition)
        if not all(each.holds(fixed[each.column]) for each in self.conditions if each.column in fixed):
            return self._only(wanted).empty_table()
        left = [each for each in self.conditions if each.column not in fixed]
        table = self._read(system, root, file, [*wanted, *{each.column for each in left}.difference(wanted)])
        if left:
            parts = (each.expression(self.schema.field(each.column).type) for each in left)
            table = table.filter(reduce(operator.and_, parts))
        return table.select(wanted)

    def _read(self, system: Any, root: str, file: TableFile, names: Sequence[str]) -> Any:
        fixed = dict(file.partition)
        if _OUTSIDE.search(file.path):
            raise DamagedFile("lies outside of the table", field=file.path)
        try:
            with system.open_input_file(f"{root}{file.path}") as opened, pq.ParquetFile(opened) as parquet:
                there = set(parquet.schema_arrow.names)
                count = parquet.metadata.num_rows
                # tasks and callers are parallel already; partitions are in no file
                table = parquet.read([name for name in names if name in there and name not in fixed], use_threads=False)
                size = opened.size()
            if size != file.size:
                raise DamagedFile(f"has {size} bytes, and the log says {file.size}", field=file.path)
            if file.rows is not None and count != file.rows:
                raise DamagedFile(f"has {count} rows, and the log says {file.rows}", field=file.path)
            table.validate(full=True)
            columns = []
            for name in names:
                kind = self.schema.field(name).type
                if name in fixed:
                    columns.append(pa.repeat(pa.scalar(fixed[name], kind), count))
                elif name in there:
                    column = table[name]
                    columns.append(column if column.type == kind else column.cast(kind))
                else:
                    columns.append(pa.nulls(count, kind))
            return pa.table(columns, schema=self._only(names))
        except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
            self._check_given(system, f"{root}{file.path}", error)
            raise DamagedFile(f"is not a readable Parquet file: {reason_of(error)}", field=file.path) from None

    def _only(self, names: Sequence[str]) -> Any:
        return pa.schema([self.schema.field(name) for name in names])

    def _check_given(self, system: Any, path: str, error: BaseException) -> None:
        """Raise if a system or a store does not give a file: then nobody can say that the file is damaged."""
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in _NOT_GIVEN:
            raise LakeError(f"cannot be read: {reason_of(error)}", field=f"the table {self.table}") from None
        if is_local(self.url):
            return
        try:
            if is_of_store(error):
                raise error
            with system.open_input_file(path) as opened:
                opened.read()
        except FileNotFoundError:
            return
        except Exception as failure:
            raise LakeError(f"cannot be read: {reason_of(failure)}", field=f"the table {self.table}") from None


def files_in(actions: Any, partitioned_by: Sequence[str], conditions: Iterable[Condition]) -> Iterator[TableFile]:
    """Of the files that the log lists, those that may have rows with all these properties."""
    actions = _pruned(actions, conditions)
    keys = [f"partition.{name}" for name in partitioned_by]
    columns = [actions[name].to_pylist() for name in ("path", "size_bytes", "num_records", *keys)]
    for path, size, rows, *values in zip(*columns, strict=True):
        yield TableFile(unquote(path), size, rows, tuple(zip(partitioned_by, values, strict=True)))


def spans_in(actions: Any, column: str, conditions: Iterable[Condition]) -> Iterator[ValueSpan]:
    """Between which values a column lies in each of the files that may have rows with all these properties."""
    actions = _pruned(actions, conditions)
    columns = [actions[name].to_pylist() for name in (f"min.{column}", f"max.{column}", "num_records")]
    return starmap(ValueSpan, zip(*columns, strict=True))


def _pruned(actions: Any, conditions: Iterable[Condition]) -> Any:
    for each in conditions:
        actions = actions.filter(_may_hold(actions, each))
    return actions


def _may_hold(actions: Any, condition: Condition) -> Any:
    """By file: whether a row in it may satisfy the condition."""
    column, comparison, value = condition
    partition, least, most = (f"{kind}.{column}" for kind in ("partition", "min", "max"))
    if partition in actions.column_names:
        kind = actions.schema.field(partition).type
        if comparison == "in":
            return pc.is_in(actions[partition], pa.array(list(value), kind))
        found = _ARROW[comparison](actions[partition], pa.scalar(value, kind))
        return pc.fill_null(found, False)
    if least not in actions.column_names or pa.types.is_string(actions.schema.field(least).type):
        return pa.array([True] * len(actions), pa.bool_())  # texts are cut short in the log
    low, high, kind = actions[least], actions[most], actions.schema.field(least).type
    if comparison == "in":
        kept = pa.array([False] * len(actions), pa.bool_())
        for each in value:
            above = pc.greater_equal(high, pa.scalar(_rounded(each), kind))
            kept = pc.or_(kept, pc.and_(pc.less_equal(low, pa.scalar(each, kind)), above))
        return pc.fill_null(kept, True)
    kept = pa.array([True] * len(actions), pa.bool_())
    if comparison in ("==", "<", "<="):
        bound = pa.scalar(value, kind)
        kept = pc.and_(kept, pc.less(low, bound) if comparison == "<" else pc.less_equal(low, bound))
    if comparison in ("==", ">", ">="):
        bound, is_exact = pa.scalar(_rounded(value), kind), not pa.types.is_timestamp(kind)
        above = pc.greater if comparison == ">" and is_exact else pc.greater_equal
        kept = pc.and_(kept, above(high, bound))
    return pc.fill_null(kept, True)


_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _rounded(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return max(value, FIRST_MOMENT + _STATISTICS_PRECISION) - _STATISTICS_PRECISION

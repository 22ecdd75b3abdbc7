"""Filters that Spark pushes down to the source, as conditions on the rows of a table.

Files are chosen by these conditions and rows are left out where they are read. No column of a lake holds NaN, which
Spark and Arrow compare differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pleroma.pipeline.lake.moments import utc
from pleroma.pipeline.lake.table_files import Comparison, Condition

_COMPARISONS: dict[type[Filter], Comparison] = {
    EqualTo: "==",
    EqualNullSafe: "==",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
}


def split(filters: Iterable[Filter], columns: Any) -> tuple[tuple[Condition, ...], list[Filter]]:
    """What the reader of a table with these columns sees to, and the filters that remain for Spark."""
    given = list(filters)
    found = {place: _condition(each, columns) for place, each in enumerate(given)}
    conditions = tuple(each for each in found.values() if each is not None)
    compared = {each.column for each in conditions}  # such a row is not null
    left = [each for place, each in enumerate(given) if found[place] is None and not _is_implied(each, compared)]
    return conditions, left


def _is_implied(given: Filter, compared: set[str]) -> bool:
    return isinstance(given, IsNotNull) and len(given.attribute) == 1 and given.attribute[0] in compared


def _condition(given: Filter, columns: Any) -> Condition | None:
    comparison = _COMPARISONS.get(type(given))
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if comparison is None or len(attribute) != 1 or attribute[0] not in columns.names:
        return None
    kind = columns.field(attribute[0]).type
    value: Any = given.value  # type: ignore[attr-defined]
    try:
        if comparison == "in":
            return Condition(attribute[0], comparison, tuple(_fitting(each, kind) for each in value))
        return Condition(attribute[0], comparison, _fitting(value, kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _fitting(value: Any, kind: Any) -> Any:
    """The value as one of the column's type; an error if it is none."""
    if isinstance(value, datetime) and pa.types.is_timestamp(kind):
        return utc(value)
    if isinstance(value, Decimal) and pa.types.is_floating(kind):
        value = float(value)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    fits = (is_number and isinstance(value, int | float)) or (pa.types.is_string(kind) and isinstance(value, str))
    if not fits or isinstance(value, bool) or value != value:
        raise TypeError(type(value).__name__)
    return pa.scalar(value + 0 if is_number else value, kind).as_py()  # -0.0 is 0.0 for Spark, and not among [0.0]

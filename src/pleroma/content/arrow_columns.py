"""Events and filters as columns of Arrow, with values as people know them, so that whatever reads Parquet reads them.

Texts and categories are strings, timestamps are moments in UTC, what an event lacks is null, and filters are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.content import Attribute, Boolean, Category, Filter, Integer, Real, Schema, Text, Timestamp
from pleroma.content.batch import Column, EventBatch
from pleroma.content.filter_json import from_json, to_json
from pleroma.errors import ContentError

MOMENT_TYPE = pa.timestamp("us", tz="UTC")


def column_type(attribute: Attribute) -> Any:
    """What the values of an attribute are in Arrow."""
    if isinstance(attribute, Timestamp):
        return MOMENT_TYPE
    if isinstance(attribute, Boolean):
        return pa.bool_()
    if isinstance(attribute, (Text, Category)):
        return pa.string()
    return pa.float64() if isinstance(attribute, Real) else pa.int64()


def to_columns(events: EventBatch) -> dict[str, Any]:
    """A column for each attribute, by its name."""
    pairs = zip(events.schema.attributes, events.columns, strict=True)
    return {attribute.name: _to_arrow(attribute, column) for attribute, column in pairs}


def from_columns(schema: Schema, given: Mapping[str, Any]) -> EventBatch:
    """Events of columns of Arrow from the outside world, all checked."""
    return EventBatch.from_columns(schema, _values(schema, given))


def sifted(schema: Schema, given: Mapping[str, Any]) -> tuple[EventBatch, NDArray[np.bool_]]:
    """The events among them that lie in the schema's domains, and for each row whether it does."""
    return EventBatch.sifted(schema, _values(schema, given))


def _values(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    columns = {}
    for name, column in given.items():
        if pa.types.is_timestamp(column.type):  # one without a zone becomes a list of datetimes, which are refused
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
            numbers = column.type.tz is not None
            columns[name] = column.to_numpy(zero_copy_only=False) if numbers else column.to_pylist()
            continue
        numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        # beside nulls, numpy would make doubles of whole numbers
        exact = not (isinstance(schema[name], Integer) and column.null_count)
        columns[name] = column.to_numpy(zero_copy_only=False) if numbers and exact else column.to_pylist()
    return columns


def filters_to_column(filters: Iterable[Filter | str]) -> Any:
    """A column of filters, each given as a filter or as its JSON."""
    texts = (each if isinstance(each, str) else json.dumps(to_json(each), ensure_ascii=False) for each in filters)
    return pa.array(list(texts), pa.string())


def filters_from_column(schema: Schema, column: Any) -> list[Filter]:
    filters = []
    for row, text in enumerate(column.to_pylist()):
        try:
            filters.append(from_json(schema, json.loads(text)))
        except (ContentError, TypeError, ValueError, RecursionError) as error:
            raise ContentError(f"row {row}: {error}", field="filter", value=text) from None
    return filters


def _to_arrow(attribute: Attribute, column: Column) -> Any:
    """A category by its word, what is absent as null."""
    if isinstance(attribute, Text):
        return pa.array(column.tolist(), pa.string())
    mask = column == attribute.absent
    if isinstance(attribute, Boolean):
        return pa.array(column == 1, pa.bool_(), mask=mask)
    if isinstance(attribute, Category):
        return pa.array(np.array(attribute.values, object)[np.where(mask, 0, column)], pa.string(), mask=mask)
    return pa.array(column, mask=mask).cast(column_type(attribute))

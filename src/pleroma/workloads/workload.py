"""Events and the subscriptions that meet them, and the two Parquet files in which they are kept.

Anything that reads Parquet can read the values; the schema and the description travel with them as JSON in the files'
metadata. Both files are written under other names and renamed when complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pleroma.content import Attribute, Category, Filter, Integer, Schema, Text
from pleroma.content.batch import Column, EventBatch
from pleroma.content.filter_json import from_json, to_json
from pleroma.errors import ContentError, WorkloadError

EVENTS = "events.parquet"
SUBSCRIPTIONS = "subscriptions.parquet"
_LABEL = b"pleroma.workload"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workload:
    """`description` says, in plain JSON values, where the data came from."""

    schema: Schema
    events: EventBatch
    subscriptions: tuple[Filter, ...]
    description: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts: tuple[EventBatch | Filter, ...] = (self.events, *self.subscriptions)
        for part in parts:
            if part.schema is not self.schema and part.schema != self.schema:
                names = f"{part.schema.name!r} in a workload of {self.schema.name!r}"
                raise WorkloadError(f"schemas differ: {names}", field="schema", value=part.schema.name)

    def save(self, folder: str | Path) -> None:
        """Write both files, in place of an older workload if the folder holds one."""
        folder = Path(folder)
        check_target(folder)
        label = {_LABEL: json.dumps(self._label()).encode()}
        pairs = zip(self.schema.attributes, self.events.columns, strict=True)
        events = pa.table({attribute.name: _to_arrow(attribute, column) for attribute, column in pairs})
        filters = [json.dumps(to_json(each), ensure_ascii=False) for each in self.subscriptions]
        numbers = pa.array(range(len(filters)), pa.int64())
        subscriptions = pa.table({"id": numbers, "filter": pa.array(filters, pa.string())})
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, table in ((EVENTS, events), (SUBSCRIPTIONS, subscriptions)):
                path = folder / _unfinished(name)
                pq.write_table(table.replace_schema_metadata(label), path, compression="zstd", write_page_checksum=True)
            for name in (EVENTS, SUBSCRIPTIONS):
                os.replace(folder / _unfinished(name), folder / name)
        except OSError as error:
            raise WorkloadError(f"cannot be written: {error.strerror or error}", field=str(folder)) from None
        finally:
            for name in (EVENTS, SUBSCRIPTIONS):
                with suppress(OSError):
                    (folder / _unfinished(name)).unlink()

    def _label(self) -> dict[str, Any]:
        counts = {"events": len(self.events), "subscriptions": len(self.subscriptions)}
        return {"schema": self.schema.to_json(), **counts, "description": self.description}

    @classmethod
    def load(cls, folder: str | Path) -> Workload:
        folder = Path(folder)
        if not folder.is_dir():
            raise WorkloadError("there is no such folder", field=str(folder))
        label = _label(folder / EVENTS)
        if label != _label(folder / SUBSCRIPTIONS):
            raise WorkloadError(f"{EVENTS} and {SUBSCRIPTIONS} are of different workloads", field=str(folder))
        schema = _checked(folder / EVENTS, lambda: Schema.from_json(label["schema"]))
        events = _checked(folder / EVENTS, lambda: _events(schema, _table(folder / EVENTS)))
        filters = _checked(folder / SUBSCRIPTIONS, lambda: _subscriptions(schema, _table(folder / SUBSCRIPTIONS)))
        workload = cls(schema, events, filters, label["description"])
        if workload._label() != label:
            raise WorkloadError("events or subscriptions are missing", field=str(folder))
        return workload


def check_target(folder: Path) -> None:
    """Refuse a place where a workload cannot be written without harm to something else."""
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise WorkloadError("is a file, not a folder", field=str(folder))
        return
    ours = {_unfinished(EVENTS), _unfinished(SUBSCRIPTIONS)}
    if any(entry.name not in ours for entry in folder.iterdir()):
        try:
            _label(folder / EVENTS)
            _label(folder / SUBSCRIPTIONS)
        except WorkloadError as error:
            reason = "the folder is not empty and holds no workload to replace; choose another"
            raise WorkloadError(reason, field=str(folder)) from error


def _unfinished(name: str) -> str:
    return f".{name}.unfinished"


# -- events ------------------------------------------------------------------------------------------------------


def _to_arrow(attribute: Attribute, column: Column) -> Any:
    """Values as people know them: a category by its word, what is absent as null."""
    if isinstance(attribute, Text):
        return pa.array(column.tolist(), pa.string())
    mask = column == attribute.absent
    if isinstance(attribute, Category):
        return pa.array(np.array(attribute.values, object)[np.where(mask, 0, column)], pa.string(), mask=mask)
    return pa.array(column, mask=mask)


def _events(schema: Schema, table: Any) -> EventBatch:
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        attribute = schema[name]
        numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if numbers and isinstance(attribute, Integer) and column.null_count:
            columns[name] = column.to_pylist()  # numpy would make doubles of them
        else:
            columns[name] = column.to_numpy() if numbers else column.to_pylist()
    return EventBatch.from_columns(schema, columns)


# -- subscriptions -----------------------------------------------------------------------------------------------


def _subscriptions(schema: Schema, table: Any) -> tuple[Filter, ...]:
    if table.column_names != ["id", "filter"]:
        raise ContentError("subscriptions have an id and a filter", value=table.column_names)
    filters = []
    for row, text in enumerate(table.column("filter").to_pylist()):
        try:
            filters.append(from_json(schema, json.loads(text)))
        except (ContentError, TypeError, ValueError, RecursionError) as error:
            raise ContentError(f"row {row}: {error}", field="filter", value=text) from None
    return tuple(filters)


# -- files -------------------------------------------------------------------------------------------------------


def _label(path: Path) -> dict[str, Any]:
    """What a file says about itself: the schema and the description."""
    metadata = _parquet(path, lambda: pq.read_schema(path).metadata) or {}
    if _LABEL not in metadata:
        raise WorkloadError("is a Parquet file, but not of a workload", field=str(path))
    try:
        label = json.loads(metadata[_LABEL])
    except (ValueError, RecursionError):
        label = None
    if not isinstance(label, dict) or "schema" not in label or not isinstance(label.get("description"), dict):
        raise WorkloadError("its label is damaged", field=str(path))
    return label


def _table(path: Path) -> Any:
    return _parquet(path, lambda: pq.read_table(path, partitioning=None, page_checksum_verification=True))


def _parquet(path: Path, read: Callable[[], T]) -> T:
    if not path.is_file():
        raise WorkloadError("there is no such file", field=str(path))
    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WorkloadError(f"is not a readable Parquet file: {first}", field=str(path)) from None


def _checked(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except ContentError as error:
        raise WorkloadError(str(error), field=str(path), value=error.value) from None

"""Events and the subscriptions that meet them, kept as two Parquet files in a folder.

Anything that reads Parquet can read the values: texts and categories are strings, what an event lacks is null, and
filters are JSON. The schema and the description are in both files' labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from pleroma.content import Filter, Schema
from pleroma.content.arrow_columns import (
    column_type,
    filters_from_column,
    filters_to_column,
    from_columns,
    to_columns,
)
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError, WorkloadError
from pleroma.workloads.parquet import FileParts, read_columns, read_label, unfinished, write_all

EVENTS_FILE = "events.parquet"
SUBSCRIPTIONS_FILE = "subscriptions.parquet"
_SUBSCRIPTION_COLUMNS = pa.schema([("id", pa.int64()), ("filter", pa.string())])

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workload:
    """Events and subscriptions of one schema. `description` says, in plain JSON values, where they came from."""

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
        write_workload(Path(folder), self.schema, [self.events], lambda: self.subscriptions, lambda: self.description)

    @classmethod
    def load(cls, folder: str | Path) -> Workload:
        folder = Path(folder)
        if not folder.is_dir():
            raise WorkloadError("there is no such folder", field=str(folder))
        label = read_label(folder / EVENTS_FILE)
        if label != read_label(folder / SUBSCRIPTIONS_FILE):
            raise WorkloadError(f"{EVENTS_FILE} and {SUBSCRIPTIONS_FILE} are of different workloads", field=str(folder))
        description = label.get("description")
        if not isinstance(description, dict):
            raise WorkloadError("its label is damaged", field=str(folder / EVENTS_FILE))
        schema = read_schema(folder)
        events = _checked(folder / EVENTS_FILE, lambda: from_columns(schema, read_columns(folder / EVENTS_FILE)))
        filters = _checked(
            folder / SUBSCRIPTIONS_FILE, lambda: _filters(schema, read_columns(folder / SUBSCRIPTIONS_FILE))
        )
        for name, found in ((EVENTS_FILE, len(events)), (SUBSCRIPTIONS_FILE, len(filters))):
            expected = label.get(name.removesuffix(".parquet"))
            if found != expected:
                raise WorkloadError(f"has {found} rows where its label says {expected}", field=str(folder / name))
        return cls(schema, events, filters, description)


def write_workload(
    folder: Path,
    schema: Schema,
    events: Iterable[EventBatch],
    subscriptions: Callable[[], Iterable[Filter]],
    description: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Write events as they come, then the subscriptions, which are asked for when all events are written.

    The description is asked for last. The answer is the label of both files.
    """
    check_target(folder)
    counts = {"events": 0, "subscriptions": 0}

    def event_parts() -> Iterator[dict[str, Any]]:
        for batch in events:
            counts["events"] += len(batch)
            yield to_columns(batch)

    def subscription_parts() -> Iterator[dict[str, Any]]:
        filters = filters_to_column(subscriptions())
        counts["subscriptions"] = len(filters)
        yield {"id": list(range(len(filters))), "filter": filters}

    def label() -> dict[str, Any]:
        return {"schema": schema.to_json(), **counts, "description": description()}

    events_file = FileParts(pa.schema([(each.name, column_type(each)) for each in schema.attributes]), event_parts())
    subscriptions_file = FileParts(_SUBSCRIPTION_COLUMNS, subscription_parts())
    write_all({folder / EVENTS_FILE: events_file, folder / SUBSCRIPTIONS_FILE: subscriptions_file}, label)
    return label()


def read_schema(folder: Path) -> Schema:
    """The schema of a workload, without its events."""
    label = read_label(folder / EVENTS_FILE)
    return _checked(folder / EVENTS_FILE, lambda: Schema.from_json(label.get("schema")))


def check_target(folder: Path) -> None:
    """Refuse a folder that holds something else than a workload, which writing would damage."""
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise WorkloadError("is a file, not a folder", field=str(folder))
        return
    files = (folder / EVENTS_FILE, folder / SUBSCRIPTIONS_FILE)
    if any(entry not in map(unfinished, files) for entry in folder.iterdir()):
        try:
            for path in files:
                read_label(path)
        except WorkloadError as error:
            reason = "the folder is not empty and holds no workload to replace; choose another"
            raise WorkloadError(reason, field=str(folder)) from error


def _filters(schema: Schema, columns: dict[str, Any]) -> tuple[Filter, ...]:
    if set(columns) != {"id", "filter"}:
        raise ContentError("subscriptions have an id and a filter", value=list(columns))
    return tuple(filters_from_column(schema, columns["filter"]))


def _checked(path: Path, read: Callable[[], T]) -> T:
    """What `read` returns; its errors name the file."""
    try:
        return read()
    except ContentError as error:
        raise WorkloadError(str(error), field=str(path), value=error.value) from None

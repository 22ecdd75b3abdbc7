"""A workload of one's own data: events from a file of rows, subscriptions from a file of filters or drawn around them.

Rows are read, checked and written a chunk at a time. A row or a filter that does not fit the schema is an error with
its line; those who ask for it have such rows left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pleroma.content import Attribute, Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.content.event_draw import RunningDraw
from pleroma.errors import ContentError, WorkloadError
from pleroma.workloads.data_files import DataChunk, DataFile, Values
from pleroma.workloads.workload import write_workload

EVENTS_TO_DRAW_AROUND = 100_000
"""Events that subscriptions are drawn around, at most."""
_TRUTHS = {"true": True, "false": False}


class LeftOut:
    """What does not fit, of one file: an error with its place, or only counted."""

    def __init__(self, path: Path, unit: str, is_skipped: bool) -> None:
        self.count = 0
        self.first = ""
        """The first in words; empty if there is none."""
        self._path = path
        self._unit = unit
        self._is_skipped = is_skipped

    def add(self, place: int, reason: str, count: int = 1) -> None:
        """So many at once, of which the first is at this place."""
        if not self._is_skipped:
            raise WorkloadError(reason, field=f"{self._path}, {self._unit} {place}")
        self.first = self.first or f"{self._unit} {place}: {reason}"
        self.count += count


class SubscriptionSource(Protocol):
    """Where subscriptions come from. They may be drawn around events, of which they are given some."""

    def drawn(self, events: EventBatch) -> Iterator[Filter]: ...

    def described(self) -> Any:
        """What the workload's description says of it, in JSON."""


@dataclass(frozen=True, slots=True)
class FilterFile:
    """A text file with a filter a line; empty lines and those that begin with # are passed over."""

    path: Path
    schema: Schema
    left_out: LeftOut

    def drawn(self, events: EventBatch) -> Iterator[Filter]:  # noqa: ARG002 (these need none)
        count = 0
        with self.path.open(encoding="utf-8") as file:
            try:
                for place, line in enumerate(file, 1):
                    text = line.strip()
                    if not text or text.startswith("#"):
                        continue
                    try:
                        found = Filter.parse(self.schema, text)
                    except ContentError as error:
                        self.left_out.add(place, str(error))
                    else:
                        count += 1
                        yield found
            except UnicodeDecodeError:
                raise WorkloadError("is not UTF-8 text", field=str(self.path)) from None
        if not count:
            raise WorkloadError("has no filter of this schema", field=str(self.path), value=self.schema.name)

    def described(self) -> Any:
        return {"file": self.path.name, "left_out": self.left_out.count}


def import_workload(
    folder: Path,
    schema: Schema,
    source: DataFile,
    subscriptions: SubscriptionSource,
    left_out: LeftOut,
    advance: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """Write a workload, and answer what its label says. `advance` is told of the events as they come."""
    draw = RunningDraw(schema, EVENTS_TO_DRAW_AROUND)

    def events() -> Iterator[EventBatch]:
        count = 0
        for batch in checked_events(source, schema, left_out):
            draw.add(batch, np.arange(count, count + len(batch)))
            count += len(batch)
            advance(len(batch))
            yield batch
        if not count:
            raise WorkloadError("has no event of this schema", field=str(source.path), value=schema.name)

    def description() -> dict[str, Any]:
        read = {"file": source.path.name, "left_out": left_out.count}
        return {"kind": "imported", "events": read, "subscriptions": subscriptions.described()}

    return write_workload(folder, schema, events(), lambda: subscriptions.drawn(draw.result().events), description)


def checked_events(source: DataFile, schema: Schema, left_out: LeftOut) -> Iterator[EventBatch]:
    """The events of a file, in its order."""
    known = None if source.names is None else columns_of(schema, source.names)
    if known is not None:
        for attribute in schema.attributes:
            if attribute.name not in known and not attribute.optional:
                reason = f"has no column {attribute.name!r}, only {', '.join(source.names or ())}"
                raise WorkloadError(reason, field=str(source.path), value=attribute.name)
    for chunk in source.chunks(None if known is None else list(known.values())):
        for place, reason in chunk.misshapen:
            left_out.add(place, reason)
        if chunk.places:
            yield _fitting(chunk, schema, known or columns_of(schema, chunk.columns), source.is_text, left_out)


def columns_of(schema: Schema, names: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """By attribute, the column of its name, or of one that differs only in case and in signs other than letters."""
    alike = {_plain_name(name): name for name in reversed(list(names))}
    found = {each: each if each in names else alike.get(_plain_name(each)) for each in schema.names}
    return {attribute: column for attribute, column in found.items() if column is not None}


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def unused_columns(source: DataFile, schema: Schema) -> tuple[str, ...]:
    """The columns that no attribute is called like."""
    used = set(columns_of(schema, source.names or ()).values())
    return tuple(name for name in source.names or () if name not in used)


def _fitting(
    chunk: DataChunk, schema: Schema, columns: Mapping[str, str], is_text: bool, left_out: LeftOut
) -> EventBatch:
    """The events among the rows that fit the schema."""
    values = {each: chunk.columns[column] for each, column in columns.items()}
    if is_text:
        values = {each: _from_text(schema[each], cells) for each, cells in values.items()}
    values |= {each: [None] * len(chunk.places) for each in schema.names if each not in values}
    batch, fits = EventBatch.sifted(schema, values)
    refused = np.flatnonzero(~fits)
    if refused.size:
        row = int(refused[0])
        reason = _reason(schema, {each: column[row] for each, column in values.items()})
        left_out.add(chunk.places[row], reason, refused.size)
    return batch


def _from_text(attribute: Attribute, cells: Values) -> Values:
    """What texts stand for; one that stands for nothing stays a text, which the attribute refuses."""
    match attribute.kind:
        case "integer" | "real":
            try:
                return np.array(cells, np.float64)  # a cell without a number becomes NaN, which is no value
            except ValueError:
                return [None if cell is None else _number(cell) for cell in cells]
        case "boolean":
            return [None if cell is None else _TRUTHS.get(cell.lower(), cell) for cell in cells]
        case _:
            return cells


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _reason(schema: Schema, values: Mapping[str, Any]) -> str:
    """Why a row is no event of a schema."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    try:
        schema.event({name: None if value != value else value for name, value in plain.items()})
    except ContentError as error:
        return str(error)
    return "is no event of this schema"

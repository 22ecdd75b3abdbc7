"""Many events as columns: one array of keys per attribute, so that checking and matching run at array speed.

A batch holds what a list of events holds and answers as they would one by one. It needs numpy, which the rest of
`content` does without: import it only where numpy is at hand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.content.attribute import Attribute
from pleroma.content.box import Box
from pleroma.content.event import Event
from pleroma.content.filter import Filter
from pleroma.content.numeric import Integer, Real
from pleroma.content.range import Key, Range
from pleroma.content.schema import Schema
from pleroma.content.schema_versions import lifted
from pleroma.content.text import Text
from pleroma.content.timestamp import Timestamp
from pleroma.errors import ContentError, DomainError

Column = NDArray[Any]
Rows = slice | NDArray[Any] | Sequence[int] | Sequence[bool]


@dataclass(frozen=True, eq=False)
class EventBatch:
    """Keys by attribute: float64 for reals, objects (str or None) for text, int64 for all other kinds."""

    schema: Schema
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.schema):
            raise ContentError(f"{len(self.columns)} columns for {len(self.schema)} attributes")
        for attribute, column in zip(self.schema.attributes, self.columns, strict=True):
            if column.shape != (len(self),) or column.dtype != _dtype(attribute):
                reason = f"keys are {len(self)} {_dtype(attribute)}, not {column.dtype} of shape {column.shape}"
                raise ContentError(reason, field=attribute.name)
        object.__setattr__(self, "columns", tuple(_sealed(column) for column in self.columns))

    @staticmethod
    def dtypes(schema: Schema) -> list[np.dtype[Any]]:
        """The types of the columns of any batch of this schema."""
        return [_dtype(attribute) for attribute in schema.attributes]

    @classmethod
    def from_columns(cls, schema: Schema, values: Mapping[str, Any]) -> EventBatch:
        """A batch of values from the outside world, all checked; None, NaN and NaT stand for what an event lacks.

        A `datetime64` has no zone and counts in UTC; a datetime without a zone is refused.
        """
        given = {schema.attributes[schema.position(name)].name: _array(name, column) for name, column in values.items()}
        lengths = {name: len(column) for name, column in given.items()}
        rows = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != rows:
                first = next(iter(lengths))
                raise ContentError(f"has {length} values where {first} has {rows}", field=name, value=length)
        columns = []
        for attribute in schema.attributes:
            if attribute.name in given:
                column, refused = _keys(attribute, given[attribute.name])
                if refused.size:
                    raise _refusal(attribute, given[attribute.name][refused[0]], int(refused[0]))
            elif attribute.optional:
                column = np.full(rows, _missing(attribute), _dtype(attribute))
            else:
                raise ContentError("the column is missing", field=attribute.name)
            columns.append(column)
        return cls(schema, tuple(columns))

    @classmethod
    def sifted(cls, schema: Schema, values: Mapping[str, Any]) -> tuple[EventBatch, NDArray[np.bool_]]:
        """The events that `from_columns` would take, and for each row whether it is one of them."""
        try:
            batch = cls.from_columns(schema, values)
            return batch, np.ones(len(batch), np.bool_)
        except ContentError:  # of a value, or of whole columns: then there is nothing to keep
            given = {name: _array(name, column) for name, column in values.items()}
            if len({len(column) for column in given.values()}) != 1:
                raise
        kept = np.ones(len(next(iter(given.values()))), np.bool_)
        for name, column in given.items():
            kept[_keys(schema[name], column)[1]] = False
        return cls.from_columns(schema, {name: column[kept] for name, column in given.items()}), kept

    @classmethod
    def from_events(cls, schema: Schema, events: Iterable[Event]) -> EventBatch:
        rows = []
        for event in events:
            if event.schema is not schema and event.schema != schema:
                raise ContentError(f"the event is of schema {event.schema.name!r}, the batch of {schema.name!r}")
            rows.append(event.value_keys)
        columns = []
        for d, attribute in enumerate(schema.attributes):
            keys = [row[d] for row in rows]
            entries = [attribute.value(key) for key in keys] if isinstance(attribute, Text) else keys
            columns.append(np.array(entries, _dtype(attribute)))
        return cls(schema, tuple(columns))

    @classmethod
    def joined(cls, schema: Schema, parts: Sequence[EventBatch]) -> EventBatch:
        """The events of all parts, one part after the other."""
        if not parts:
            return cls.from_events(schema, ())
        columns = zip(*(each.columns for each in parts), strict=True)
        return cls(schema, tuple(np.concatenate(each) for each in columns))

    def lifted(self, schema: Schema) -> EventBatch:
        """The same events on a later version of their schema."""
        if self.schema == schema:
            return self
        return EventBatch.from_events(schema, (lifted(event, schema) for event in self))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventBatch):
            return NotImplemented
        pairs = zip(self.columns, other.columns, strict=False)
        return self.schema == other.schema and all(np.array_equal(mine, its) for mine, its in pairs)

    def __getitem__(self, rows: Rows) -> EventBatch:
        """The events at these rows, in this order; a mask of booleans keeps those that are true."""
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            if rows.ndim != 1:
                raise TypeError("a batch is indexed by a slice or a list of rows; one event is event(row)")
            rows = rows if rows.size else rows.astype(np.intp)
        return EventBatch(self.schema, tuple(column[rows] for column in self.columns))

    def event(self, row: int) -> Event:
        entries = zip(self.schema.attributes, self.columns, strict=True)
        return Event(self.schema, tuple(_key(attribute, column[row]) for attribute, column in entries))

    def __iter__(self) -> Iterator[Event]:
        listed = []
        for d, attribute in enumerate(self.schema.attributes):
            if isinstance(attribute, Text):
                column = self._text_columns[d]
                listed.append([column.keys[rank] for rank in column.ranks.tolist()])
            else:
                listed.append(self.columns[d].tolist())
        return (Event(self.schema, keys) for keys in zip(*listed, strict=True))

    def points(self) -> NDArray[np.float64]:
        """One row per event and one coordinate per attribute: what an index encodes."""
        points = np.empty((len(self), len(self.schema)))
        for d, attribute in enumerate(self.schema.attributes):
            if isinstance(attribute, Text):
                column = self._text_columns[d]
                points[:, d] = np.array([attribute.coordinate(key) for key in column.keys])[column.ranks]
            else:
                # an absent key lies below the domain, and its coordinate is where the domain begins
                np.maximum(self.columns[d], attribute.coordinate(attribute.absent), out=points[:, d])
        return points

    def ordinals(self) -> NDArray[np.float64]:
        """One row per event: numbers that compare exactly as the keys do, text by its rank in this batch."""
        columns = [
            self._text_columns[d].ranks if d in self._text_columns else column for d, column in enumerate(self.columns)
        ]
        return np.column_stack(columns).astype(np.float64, copy=False)

    def text_column(self, d: int) -> TextColumn:
        """A column of text, as ranks among its distinct keys."""
        return self._text_columns[d]

    def bounds(self, box: Box) -> list[tuple[float, float]]:
        """The box in terms of `ordinals`: the range `[low, high)` of every attribute."""
        return [
            self._text_columns[d].span(part) if d in self._text_columns else part for d, part in enumerate(box.ranges)
        ]

    def matches(self, filter: Filter) -> NDArray[np.bool_]:
        """For each event whether the filter, exactly, wants it."""
        if filter.schema is not self.schema and filter.schema != self.schema:
            raise ContentError(f"the events are of schema {self.schema.name!r}, the filter of {filter.schema.name!r}")
        wanted = np.zeros(len(self), np.bool_)
        for box in filter.boxes:
            wanted[self._inside(box)] = True
        return wanted

    def _inside(self, box: Box) -> NDArray[np.intp] | slice:
        """The rows in one box: each attribute looks only at the rows that all before it have let through."""
        rows: NDArray[np.intp] | None = None
        for d, (attribute, part) in enumerate(zip(self.schema.attributes, box.ranges, strict=True)):
            if part.covers(attribute.domain):
                continue
            column, (lo, hi) = self.columns[d], part
            if isinstance(attribute, Text):
                column, (lo, hi) = self._text_columns[d].ranks, self._text_columns[d].span(part)
            keys = column if rows is None else column[rows]
            passed = np.flatnonzero((keys >= lo) & (keys < hi))
            rows = passed if rows is None else rows[passed]
            if not rows.size:
                break
        return slice(None) if rows is None else rows

    @cached_property
    def _text_columns(self) -> dict[int, TextColumn]:
        """The text columns, as ranks among their distinct keys."""
        texts = ((d, a) for d, a in enumerate(self.schema.attributes) if isinstance(a, Text))
        return {d: TextColumn.of(attribute, self.columns[d]) for d, attribute in texts}


class TextColumn(NamedTuple):
    """A text column as whole numbers that compare as its keys do: which of the sorted keys each event has."""

    keys: list[bytes]
    ranks: NDArray[np.int64]

    @classmethod
    def of(cls, attribute: Text, column: Column) -> TextColumn:
        texts = column.tolist()
        key_of = {text: _key(attribute, text) for text in set(texts)}
        keys = sorted(key_of.values())
        rank_of_key = {key: rank for rank, key in enumerate(keys)}
        rank_of = {text: rank_of_key[key] for text, key in key_of.items()}
        return cls(keys, np.fromiter(map(rank_of.__getitem__, texts), np.int64, len(texts)))

    def span(self, part: Range) -> tuple[int, int]:
        """The ranks `[first, last)` of the keys in a range."""
        return bisect_left(self.keys, part.lo), bisect_left(self.keys, part.hi)


def _dtype(attribute: Attribute) -> np.dtype[Any]:
    if isinstance(attribute, Text):
        return np.dtype(object)
    return np.dtype(np.float64 if isinstance(attribute, Real) else np.int64)


def _sealed(column: Column) -> Column:
    """The same numbers, not to be written to."""
    view = column.view()
    view.flags.writeable = False
    return view


def _missing(attribute: Attribute) -> Any:
    """How a column says that an event lacks the attribute."""
    return None if isinstance(attribute, Text) else attribute.absent


def _key(attribute: Attribute, entry: Any) -> Key:
    """An entry of a column as an event has it."""
    if isinstance(attribute, Text):
        return attribute.absent if entry is None else attribute.key(entry)
    return entry.item()


def _array(name: str, given: Any) -> Column:
    """What was given as an array of numbers, or else of objects, so that numpy cannot turn `1` into `'1'`."""
    if hasattr(given, "__array__"):
        array = np.asarray(given)
        if array.ndim != 1:
            raise ContentError("a column is one list of values", field=name, value=given)
        if array.dtype.kind == "M":
            return array.astype("datetime64[us]")
        return array if array.dtype.kind in "iuf" else _objects(array.tolist())
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ContentError("a column is one list of values", field=name, value=given)
    values = list(given)
    kinds = set(map(type, values))
    if kinds and kinds <= {int, float}:
        try:
            return np.array(values, np.float64 if float in kinds else np.int64)
        except OverflowError:
            pass
    return _objects(values)


def _objects(values: list[Any]) -> Column:
    """An array of these very objects, even where they are lists."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _keys(attribute: Attribute, values: Column) -> tuple[Column, NDArray[np.intp]]:
    """The keys of all values, and the rows of those that have none."""
    kinds = "M" if isinstance(attribute, Timestamp) else "iuf"
    if values.dtype.kind in kinds and isinstance(attribute, (Integer, Real)):
        return _number_keys(attribute, values)
    return _object_keys(attribute, values)


def _number_keys(attribute: Integer | Real, values: Column) -> tuple[Column, NDArray[np.intp]]:
    low, high = attribute.present
    absent = np.isnan(values) & attribute.optional
    if values.dtype.kind == "M":
        values = values.astype(np.int64)  # the least of all where there is none
    if values.dtype.kind == "f" or isinstance(attribute, Real):
        values = values.astype(np.float64) + 0.0  # -0.0 and 0.0 are one value
    good = (values >= low) & (values < high)
    if isinstance(attribute, Integer):
        good &= values == np.floor(values)
    refused = np.flatnonzero(~(good | absent))
    if refused.size:
        return values, refused
    keys = np.where(absent, low, values).astype(_dtype(attribute))
    keys[absent] = attribute.absent
    return keys, refused


def _object_keys(attribute: Attribute, values: Column) -> tuple[Column, NDArray[np.intp]]:
    """One look at each distinct value; `True` and `1` are equal, and yet only one of them is a number."""
    keys = np.empty(len(values), _dtype(attribute))
    known: dict[tuple[type, Any], Any] = {}
    refused = []
    for row, value in enumerate(values.tolist()):
        value = _plain(value)
        if attribute.optional and isinstance(value, (float, datetime)) and value != value:
            value = None
        try:
            entry = known.get((type(value), value), known)
            if entry is known:
                key = attribute.key(value)
                entry = known[type(value), value] = value if isinstance(attribute, Text) else key
        except (ContentError, TypeError):  # what is not hashable is nothing that an event holds
            refused.append(row)
        else:
            keys[row] = entry
    return keys, np.array(refused, np.intp)


def _plain(value: Any) -> Any:
    """A Python object for a numpy one."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.item().replace(tzinfo=UTC)
    return value.item() if isinstance(value, np.generic) else value


def _refusal(attribute: Attribute, value: Any, row: int) -> ContentError:
    """What the attribute itself says about the value, and the row it was found in."""
    try:
        attribute.key(_plain(value))
    except ContentError as error:
        error.reason = f"row {row}: {error.reason}"
        return error
    return DomainError(f"row {row}: not accepted", field=attribute.name, value=value)

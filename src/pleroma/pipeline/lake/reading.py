"""How a lake becomes rows: which files answer a query, which task reads which files, and what rows a file gives.

Planning looks at names alone. Reading opens files; it depends on nothing but its arguments and may happen in another
process on another machine. A damaged file, or a file of another schema, gives no rows, and its name goes to the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pleroma.errors import LakeError
from pleroma.pipeline.lake.storage import PARTS_LABEL, Storage, read_table

if TYPE_CHECKING:
    from pleroma.content import Schema
    from pleroma.pipeline.lake.lake import Lake

ROW_KINDS = ("events", "reports", "subscriptions", "refused")
BATCH_ROWS = 65_536
"""Rows of one record batch at most."""

_MIN_TASK_BYTES, _MAX_TASK_BYTES, _ENOUGH_TASKS = 1 << 20, 16 << 20, 8
"""A task reads about so many bytes at least and at most; within these limits there are about so many tasks."""
_MOMENT = pa.timestamp("us", tz="UTC")
_VALIDITY = [("since", _MOMENT), ("until", _MOMENT)]
_REFUSED = pa.schema([("path", pa.string()), ("kind", pa.string()), ("reason", pa.string())])

log = logging.getLogger("pleroma.pipeline")


class FileToRead(NamedTuple):
    """A file to read; a snapshot comes with the time that it is valid."""

    kind: str
    path: str
    size: int = 0
    since: datetime | None = None
    until: datetime | None = None
    landed: tuple[int, int] | None = None
    """Of a fold, only the parts that were landed after one moment and until another, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What files of a schema have to hold, and which rows are made of them."""

    url: str
    kind: str
    checksum: str
    columns: Mapping[str, Any]
    """What each kind of file has to hold."""
    at: Mapping[str, str]
    """The column that says when something happened."""
    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def of(cls, url: str, schema: Schema, kind: str, start: datetime | None, end: datetime | None) -> Reading:
        from pleroma.pipeline.lake import lake_layout

        columns = {each: lake_layout.columns_of(each, schema) for each in ROW_KINDS[:-1]}
        at = {"events": lake_layout.EventColumns.of(schema).at, "reports": "at"}
        return cls(url, kind, lake_layout.checksum(schema), columns, at, start, end)

    @property
    def schema(self) -> Any:
        """The rows, in Arrow's terms."""
        if self.kind == "refused":
            return _REFUSED
        own = self.columns[self.kind]
        return pa.schema([*_VALIDITY, *own]) if self.kind == "subscriptions" else own

    def batches(self, pieces: Iterable[FileToRead], names: Iterable[str] | None = None) -> Iterator[Any]:
        """The rows of some files as record batches, of all columns or of these."""
        chosen = list(self.schema.names if names is None else names)
        system = Storage.at(self.url).system
        for piece in pieces:
            table = self._table(system, piece)
            if table is not None:
                yield from table.select(chosen).replace_schema_metadata(None).to_batches(max_chunksize=BATCH_ROWS)

    def _table(self, system: Any, piece: FileToRead) -> Any | None:
        try:
            table = read_table(system, piece.path, self.checksum, self.columns[piece.kind])
            if piece.landed is not None:
                table = _unfolded(table, *piece.landed, piece.path)
        except LakeError as error:
            if self.kind == "refused":
                return pa.table([[piece.path], [piece.kind], [error.reason]], schema=_REFUSED)
            log.warning("skipped %s", error)
            return None
        if self.kind == "refused":
            return None
        if piece.since is not None:
            valid = (pa.array([moment] * len(table), _MOMENT) for moment in (piece.since, piece.until))
            return pa.table([*valid, *table.columns], schema=self.schema)
        return self._within(table, table[self.at[piece.kind]])

    def _within(self, table: Any, moments: Any) -> Any:
        if self.start is not None:
            kept = pc.greater_equal(moments, pa.scalar(self.start, _MOMENT))
            table, moments = table.filter(kept), moments.filter(kept)
        if self.end is not None:
            table = table.filter(pc.less(moments, pa.scalar(self.end, _MOMENT)))
        return table


def _unfolded(table: Any, after: int, until: int, path: str) -> Any:
    """Of a fold, the rows of the parts that were landed after one moment and until another."""
    try:
        parts = json.loads(table.schema.metadata[PARTS_LABEL])
        first = sum(rows for moment, rows in parts if moment <= after)
        return table.slice(first, sum(rows for moment, rows in parts if after < moment <= until))
    except (KeyError, TypeError, ValueError):
        raise LakeError("does not say which parts it was made of", field=path) from None


def planned(
    lake: Lake, kind: str, name: str, start: datetime | None = None, end: datetime | None = None
) -> Iterator[FileToRead]:
    """The files that hold rows of a kind and a time, in the order of their landing."""
    for each in ("events", "reports"):
        if kind in (each, "refused"):
            for file in lake.files(each, name, start, end):
                yield FileToRead(each, file.path, file.size)
    if kind in ("subscriptions", "refused"):
        for path, since, until in lake.snapshots(name, start, end):
            yield FileToRead("subscriptions", path, 0, since, until)


def portions(pieces: Iterable[FileToRead]) -> list[list[FileToRead]]:
    """Files by task, in order: neither too many tasks nor too much for one."""
    listed = list(pieces)
    enough = min(max(sum(piece.size for piece in listed) // _ENOUGH_TASKS, _MIN_TASK_BYTES), _MAX_TASK_BYTES)
    made: list[list[FileToRead]] = []
    held = enough
    for piece in listed:
        if held >= enough:
            made.append([])
            held = 0
        made[-1].append(piece)
        held += piece.size
    return made

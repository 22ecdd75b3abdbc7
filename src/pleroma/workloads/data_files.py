"""Rows that others have written: CSV, JSON lines or Parquet, a chunk at a time, however large the file is.

A row is known by the line it stands on (in Parquet, which has no lines, by its number), so that an error can name its
place. Values of CSV are texts; those of the others are as the file has them.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pleroma.errors import WorkloadError

CHUNK_ROWS = 65_536
"""Rows that are in memory at once."""
_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "lines", ".ndjson": "lines", ".parquet": "parquet"}
_SEPARATORS = ",;\t|"


Values = Sequence[Any] | NDArray[Any]


class MisshapenRow(NamedTuple):
    """A row that cannot be read at all, and why."""

    place: int
    reason: str


class DataChunk(NamedTuple):
    """Rows that follow each other: by name of a column, the value of each row; None where a row has none."""

    columns: Mapping[str, Values]
    places: Sequence[int]
    """The line, or the number, of each row."""
    misshapen: Sequence[MisshapenRow] = ()


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows. Text files may be packed by gzip."""

    path: Path
    format: str
    names: tuple[str, ...] | None
    """The columns; None for JSON lines, where every row has names of its own."""
    separator: str = ","

    @classmethod
    def at(cls, path: Path) -> DataFile:
        stem = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        form = _FORMATS.get(stem.suffix.lower())
        if form is None or (form == "parquet" and stem != path):
            reason = "is data if its name ends in .csv, .tsv or .jsonl (or these with .gz), or in .parquet"
            raise WorkloadError(reason, field=str(path))
        if form == "lines":
            return cls(path, form, None)
        if form == "parquet":
            with _readable(path):
                return cls(path, form, tuple(pq.read_schema(path).names))
        with _opened(path) as file:
            first = file.readline()
            separator = max(_SEPARATORS, key=first.count)
            file.seek(0)
            names = next(csv.reader(file, delimiter=separator), None)
        if not names:
            raise WorkloadError("has no header", field=str(path))
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise WorkloadError(f"has two columns {twice!r}", field=str(path))
        return cls(path, form, tuple(names), separator)

    @property
    def unit(self) -> str:
        """What a place counts."""
        return "row" if self.format == "parquet" else "line"

    @property
    def is_text(self) -> bool:
        """Whether all values are texts, whatever they stand for."""
        return self.format == "csv"

    def chunks(self, wanted: Sequence[str] | None = None) -> Iterator[DataChunk]:
        """All rows, of the wanted columns or of all."""
        read = {"csv": self._csv, "lines": self._lines, "parquet": self._parquet}[self.format]
        return read(wanted)

    def _csv(self, wanted: Sequence[str] | None) -> Iterator[DataChunk]:
        header = list(self.names or ())
        kept = [header.index(name) for name in (header if wanted is None else wanted)]
        with _opened(self.path) as file:
            reader = csv.reader(file, delimiter=self.separator)
            next(reader, None)
            rows: list[list[str]] = []
            places: list[int] = []
            misshapen: list[MisshapenRow] = []

            def chunk() -> DataChunk:
                columns = list(zip(*rows, strict=True)) or [()] * len(header)
                return DataChunk({header[n]: [cell or None for cell in columns[n]] for n in kept}, places, misshapen)

            for row in reader:
                if len(row) == len(header):
                    rows.append(row)
                    places.append(reader.line_num)
                elif row:
                    reason = f"has {len(row)} values, and there are {len(header)} columns"
                    misshapen.append(MisshapenRow(reader.line_num, reason))
                if len(rows) + len(misshapen) >= CHUNK_ROWS:
                    yield chunk()
                    rows, places, misshapen = [], [], []
            if rows or misshapen:
                yield chunk()

    def _lines(self, wanted: Sequence[str] | None) -> Iterator[DataChunk]:
        with _opened(self.path) as file:
            rows: dict[int, dict[str, Any]] = {}
            misshapen: list[MisshapenRow] = []

            def chunk() -> DataChunk:
                names = dict.fromkeys(name for row in rows.values() for name in row) if wanted is None else wanted
                columns = {name: [row.get(name) for row in rows.values()] for name in names}
                return DataChunk(columns, list(rows), misshapen)

            for place, line in enumerate(file, 1):
                if not line.strip():
                    continue
                row = _object(line)
                if row is None:
                    misshapen.append(MisshapenRow(place, "is not a JSON object"))
                else:
                    rows[place] = row
                if len(rows) + len(misshapen) >= CHUNK_ROWS:
                    yield chunk()
                    rows, misshapen = {}, []
            if rows or misshapen:
                yield chunk()

    def _parquet(self, wanted: Sequence[str] | None) -> Iterator[DataChunk]:
        first = 1
        with _readable(self.path), pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(CHUNK_ROWS, columns=None if wanted is None else list(wanted)):
                columns = {name: _values(column) for name, column in zip(batch.schema.names, batch, strict=True)}
                yield DataChunk(columns, range(first, first + len(batch)))
                first += len(batch)


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _values(column: Any) -> Values:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    values: Values = column.to_numpy() if is_number and not column.null_count else column.to_pylist()
    return values


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A text file, packed or not; whatever is wrong with its bytes is an error in one line."""
    packed = path.suffix.lower() == ".gz"
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if packed
            else path.open(encoding="utf-8-sig", newline="") as file
        ):
            yield file
    except UnicodeDecodeError:
        raise WorkloadError("is not UTF-8 text", field=str(path)) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise WorkloadError(f"cannot be unpacked: {error}", field=str(path)) from None
    except csv.Error as error:
        raise WorkloadError(f"is not CSV: {error}", field=str(path)) from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise WorkloadError("there is no such file", field=str(path)) from None
    except (pa.ArrowException, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WorkloadError(f"is not a readable Parquet file: {first}", field=str(path)) from None

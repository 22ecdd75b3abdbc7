"""Parquet files of a workload, with a label, which are either complete or not there.

The label is JSON in the file's metadata, so that the file says what it is. A file is written under another name and
renamed when complete; reading checks everything, for a flipped bit must not become a wrong result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pleroma.errors import WorkloadError

_LABEL = "pleroma.workload"

_WRITING: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True, "store_schema": False}
"""Without a copy of Arrow's own schema, which would hide the label from those who ask Arrow for metadata."""

T = TypeVar("T")


def unfinished(path: Path) -> Path:
    """The name of a file while it is written."""
    return path.with_name(f".{path.name}.unfinished")


class FileParts(NamedTuple):
    """What a file holds: its columns by Arrow's types, and the rows, a part after the other."""

    columns: pa.Schema
    rows: Iterable[Mapping[str, Any]]


def write_all(files: Mapping[Path, FileParts], label: Callable[[], dict[str, Any]]) -> None:
    """Write to each file its parts one after the other; no part is kept once it is written.

    The label is asked for when all parts are written, and goes into every file. None of the files appears under its
    own name before all are complete.
    """
    writers: list[pq.ParquetWriter] = []
    try:
        for path, parts in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(unfinished(path), parts.columns, **_WRITING)
            writers.append(writer)
            for columns in parts.rows:
                writer.write_table(pa.table(dict(columns), schema=parts.columns))
        text = json.dumps(label(), allow_nan=False)
        for writer in writers:
            writer.add_key_value_metadata({_LABEL: text})
            writer.close()
        for path in files:
            os.replace(unfinished(path), path)
    except OSError as error:
        folder = str(next(iter(files)).parent)
        raise WorkloadError(f"cannot be written: {error.strerror or error}", field=folder) from None
    finally:
        for writer in writers:
            with suppress(OSError):
                writer.close()
        for path in files:
            with suppress(OSError):
                unfinished(path).unlink()


def read_label(path: Path) -> dict[str, Any]:
    metadata = _readable(path, lambda: pq.read_metadata(path).metadata) or {}
    written = metadata.get(_LABEL.encode())
    if written is None:
        raise WorkloadError("is a Parquet file, but not of a workload", field=str(path))
    try:
        label = json.loads(written)
    except (ValueError, RecursionError):
        label = None
    if not isinstance(label, dict):
        raise WorkloadError("its label is damaged", field=str(path))
    return label


def read_columns(path: Path) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        # the checksums are of pages: what lies between these, such as the names of columns, may still be wrong
        table.validate(full=True)
        return dict(zip(table.column_names, table.columns, strict=True))

    return _readable(path, read)


def _readable(path: Path, read: Callable[[], T]) -> T:
    if not path.is_file():
        raise WorkloadError("there is no such file", field=str(path))
    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WorkloadError(f"is not a readable Parquet file: {first}", field=str(path)) from None

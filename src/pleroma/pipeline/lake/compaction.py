"""Compaction: small parts of hours that are over become one file, or a trickle of events would make thousands a day.

Such a file, a fold, holds all parts of a folder that were landed in a stretch of time, row for row. It is written
beside the parts, and from the moment that it has its name, listings leave the parts out. The parts are removed a day
later, when nobody can be about to read them (`retention`). A process that is killed on the way leaves no fold, or a
whole one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pleroma.content import Schema
from pleroma.errors import LakeError
from pleroma.pipeline.lake import lake_layout
from pleroma.pipeline.lake.lake_layout import LandedFile, PartKind
from pleroma.pipeline.lake.storage import PARTS_LABEL, SCHEMA_LABEL, read_table

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

MAX_FOLDED_PARTS = 2_000
"""Parts that one call puts together, about: landing waits meanwhile."""
LARGE_PART_BYTES = 1 << 20
"""A part of this size stays a file of its own."""


class OpenedPart(NamedTuple):
    file: LandedFile
    table: Any


def fold(lake: Lake, before: datetime, max_parts: int = MAX_FOLDED_PARTS) -> int:
    """Put parts of hours that were over by `before` together; returns how many. Nobody may land meanwhile."""
    done = 0
    for kind in lake_layout.PART_KINDS:
        for name in lake.schemas():
            schema = lake.schema(name)
            files = lake.files(kind, name, end=before)
            over = sorted(
                (each for each in files if lake_layout.hour_of(each) + lake_layout.ONE_HOUR <= before), key=_place
            )
            for _, of_hour in groupby(over, key=_folder):
                if done >= max_parts:
                    return done
                for parts in _stretches(lake, kind, schema, list(of_hour)):
                    _write(lake, schema, parts)
                    done += len(parts)
    return done


def _stretches(lake: Lake, kind: PartKind, schema: Schema, files: Sequence[LandedFile]) -> Iterator[list[OpenedPart]]:
    """Runs of parts that can become one fold: no large part, no fold and no unreadable part lies between them."""
    if len({file.last for file in files}) < len(files):
        return  # two writers landed in the same millisecond: times do not tell their parts apart
    held: list[OpenedPart] = []
    for file in files:
        part = None if lake_layout.is_fold(file) or file.size >= LARGE_PART_BYTES else _read(lake, kind, schema, file)
        rows = sum(len(each.table) for each in held)
        if part is None or rows + len(part.table) > lake_layout.MAX_PART_ROWS:
            if len(held) > 1:
                yield held
            held = []
        held += [] if part is None else [part]
    if len(held) > 1:
        yield held


def _read(lake: Lake, kind: PartKind, schema: Schema, file: LandedFile) -> OpenedPart | None:
    try:
        columns = lake_layout.columns_of(kind, schema)
        return OpenedPart(file, read_table(lake.storage.system, file.path, lake_layout.checksum(schema), columns))
    except LakeError:
        return None


def _write(lake: Lake, schema: Schema, parts: Sequence[OpenedPart]) -> None:
    table = pa.concat_tables([part.table.replace_schema_metadata(None) for part in parts])
    made_of = json.dumps([[part.file.last, len(part.table)] for part in parts]).encode()
    table = table.replace_schema_metadata({SCHEMA_LABEL: lake_layout.checksum(schema).encode(), PARTS_LABEL: made_of})
    folder = _folder(parts[0].file).removeprefix(f"{lake.storage.root}/")
    key = lake_layout.fold_key(parts[0].file.last, parts[-1].file.last, secrets.token_hex(4))
    lake.storage.write_table(f"{folder}/{key}", table)


def _folder(file: LandedFile) -> str:
    return file.path.rpartition("/")[0]


def _place(file: LandedFile) -> tuple[str, int]:
    return _folder(file), file.last

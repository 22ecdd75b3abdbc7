"""Reads lakes as they were before they were Delta tables: folders of JSON and Parquet files. `migration` uses it once.

    schemas/NAME.json, sampling/NAME.json
    plans/schema=NAME/epoch-00000012.json
    events|reports/schema=NAME/date=2026-11-15/hour=16/part-….parquet, fold-….parquet
    subscriptions/schema=NAME/since-001795000000000000.parquet
    windows|decisions/schema=NAME/20261115T160000.000000Z.json

A fold has the rows of all parts beside it that were landed in the stretch of time in its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pleroma.content import Schema
from pleroma.content.arrow_columns import MOMENT_TYPE, column_type
from pleroma.content.filter_json import from_json
from pleroma.errors import ContentError, DamagedFile, IndexingError, LakeError
from pleroma.index import IndexPlan
from pleroma.pipeline.lake.landed import REPORT_COUNTERS, LandedPlan
from pleroma.pipeline.lake.moments import from_microseconds, utc
from pleroma.pipeline.lake.registration_history import RegistrationText
from pleroma.pipeline.lake.store import file_system, lake_url, reason_of

OldKind = Literal["schemas", "sampling", "plans", "events", "reports", "subscriptions", "windows", "decisions"]

_FILE = re.compile(
    r"(?:schema=(?P<schema>[^/]+)/)?(?:date=[-\d]+/hour=\d\d/)?"
    r"(?:(?P<name>[^./][^/]*)\.json|(?:part|fold)-(?P<first>\d{15})-(?:(?P<last>\d{15})-)?.*\.parquet"
    r"|since-(?P<since>\d{18})\.parquet)"
)
_REPORT_COLUMNS = pa.schema(
    [
        ("at", MOMENT_TYPE),
        ("subscription", pa.string()),
        ("principal", pa.string()),
        *((name, pa.int64()) for name in REPORT_COUNTERS if name != "wanted"),  # which nobody counted then
    ]
)
_SNAPSHOT_COLUMNS = pa.schema([(name, pa.string()) for name in RegistrationText._fields])


class OldFile(NamedTuple):
    path: str
    """From the root of the lake."""
    schema: str
    first: int
    last: int
    """When the first and the last rows in it were landed, in milliseconds; of a snapshot, since when it is valid."""

    @property
    def is_fold(self) -> bool:
        return "/fold-" in self.path


class OldLake:
    def __init__(self, url: str) -> None:
        self.url = lake_url(url)
        self._system, self._root = file_system(self.url)
        if not self.files("schemas"):
            raise LakeError("there is no lake of the old layout here", field="lake", value=url)

    def count(self) -> int:
        """How many files there are to be read."""
        return sum(len(self.files(kind)) for kind in get_args(OldKind))

    def files(self, kind: OldKind) -> list[OldFile]:
        """The files of a kind, in the order of their landings; without parts whose rows are in a fold."""
        found = sorted(self._found(kind), key=lambda each: (each.last, each.path))
        folds: dict[str, list[OldFile]] = {}
        for each in found:
            if each.is_fold:
                folds.setdefault(_folder(each), []).append(each)
        return [
            each
            for each in found
            if each.is_fold or not any(fold.first <= each.last <= fold.last for fold in folds.get(_folder(each), ()))
        ]

    def _found(self, kind: OldKind) -> Iterator[OldFile]:
        selector = fs.FileSelector(f"{self._root}{kind}", allow_not_found=True, recursive=True)
        try:
            listed = self._system.get_file_info(selector)
        except OSError as error:
            raise LakeError(f"cannot be read: {reason_of(error)}", field=kind) from None
        for info in listed:
            path = info.path.removeprefix(self._root)
            found = _FILE.fullmatch(path.removeprefix(f"{kind}/"))
            if found and info.type == fs.FileType.File:
                first = int(found["first"] or found["since"] or 0)
                schema = unquote(found["schema"] or found["name"] or "", errors="surrogatepass")
                yield OldFile(path, schema, first, int(found["last"] or first))

    def json(self, file: OldFile) -> Any:
        try:
            with self._system.open_input_stream(f"{self._root}{file.path}") as stream:
                return json.loads(stream.readall().decode(errors="surrogatepass"))
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedFile(f"is no JSON: {reason_of(error)}", field=file.path) from None

    def schema(self, file: OldFile) -> Schema:
        try:
            return Schema.from_json(self.json(file))
        except ContentError as error:
            raise DamagedFile(f"is no schema: {error}", field=file.path) from None

    def rate(self, file: OldFile) -> float:
        try:
            return float(self.json(file)["rate"])
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"is no rate: {error}", field=file.path) from None

    def plan(self, file: OldFile) -> LandedPlan:
        data = self.json(file)
        try:
            plan = IndexPlan.loads(json.dumps(data["plan"]))
            return LandedPlan.of(plan, data["members"], utc(datetime.fromisoformat(data["since"])))
        except (ContentError, IndexingError, KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"is no plan: {error}", field=file.path) from None

    def events(self, file: OldFile, schema: Schema) -> Any:
        """With the columns id, at, epoch and rate in front, whatever they are called, and those of the attributes."""
        attributes = [(each.name, column_type(each)) for each in schema.attributes]
        own = [("id", pa.int64()), ("at", MOMENT_TYPE), ("epoch", pa.int32()), ("rate", pa.float64())]
        taken = {name.lower() for name in schema.names}
        return self._rows(file, pa.schema([*((_free(name, taken), kind) for name, kind in own), *attributes]))

    def reports(self, file: OldFile) -> Any:
        return self._rows(file, _REPORT_COLUMNS)

    def snapshot(self, file: OldFile, schema: Schema) -> tuple[datetime, list[RegistrationText]]:
        """All subscriptions of a schema, and since when they were in force."""
        rows = [RegistrationText(**row) for row in self._rows(file, _SNAPSHOT_COLUMNS).to_pylist()]
        try:
            for text in {row.filter for row in rows}:
                from_json(schema, json.loads(text))
        except (ContentError, TypeError, ValueError, RecursionError) as error:
            raise DamagedFile(f"has a filter that is none: {error}", field=file.path) from None
        return from_microseconds(file.last), rows

    def _rows(self, file: OldFile, columns: Any) -> Any:
        try:
            with (
                self._system.open_input_file(f"{self._root}{file.path}") as opened,
                pq.ParquetFile(opened, page_checksum_verification=True) as parquet,
            ):
                if not parquet.schema_arrow.equals(columns):
                    names = ", ".join(parquet.schema_arrow.names)
                    raise DamagedFile(f"has other columns: {names}", field=file.path)
                rows = parquet.read()
            rows.validate(full=True)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DamagedFile(f"is not a readable Parquet file: {reason_of(error)}", field=file.path) from None
        return rows.replace_schema_metadata(None)


def _folder(file: OldFile) -> str:
    return file.path.rpartition("/")[0]


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name

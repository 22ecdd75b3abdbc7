"""Writes lakes of the old layout: folders of JSON and Parquet files, with folds beside parts that are in them."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from pleroma.content import Schema
from pleroma.content.arrow_columns import column_type
from pleroma.index import IndexPlan
from support.old_plans import without_members

MOMENT = pa.timestamp("us", tz="UTC")
COUNTERS = ("delivered", "wasted", "duplicates", "dropped")


class OldLakeWriter:
    def __init__(self, root: Path) -> None:
        self.root = root

    def schema(self, schema: Schema) -> Path:
        return self._json(f"schemas/{_quoted(schema.name)}.json", schema.to_json())

    def rate(self, name: str, rate: float) -> Path:
        return self._json(f"sampling/{_quoted(name)}.json", {"rate": rate})

    def plan(self, plan: IndexPlan, members: int | None, since: datetime) -> Path:
        data = {"since": since.isoformat(), "members": members, "plan": json.loads(without_members(plan))}
        return self._json(f"plans/schema={_quoted(plan.schema.name)}/epoch-{plan.epoch:08d}.json", data)

    def journal(self, kind: str, name: str, start: datetime, data: Any) -> Path:
        return self._json(f"{kind}/schema={_quoted(name)}/{start:%Y%m%dT%H%M%S}.{start.microsecond:06d}Z.json", data)

    def events(
        self, schema: Schema, moment: int, rows: Iterable[Mapping[str, Any]], fold_from: int | None = None
    ) -> Path:
        """A part that was landed at a moment, in milliseconds, or a fold of all that was landed from another on.

        Rows have `id`, `at`, `epoch`, `rate`, and the attributes; columns of attributes of these names stand for them.
        """
        own = {"id": pa.int64(), "at": MOMENT, "epoch": pa.int32(), "rate": pa.float64()}
        attributes = {each.name: column_type(each) for each in schema.attributes}
        taken = {name.lower() for name in attributes}
        names = {name: _free(name, taken) for name in own}
        kinds = pa.schema([*((names[name], kind) for name, kind in own.items()), *attributes.items()])
        return self._part(
            "events", schema.name, moment, pa.Table.from_pylist(list(rows), schema=kinds), names["at"], fold_from
        )

    def reports(self, name: str, moment: int, rows: Iterable[Mapping[str, Any]], fold_from: int | None = None) -> Path:
        own = [("at", MOMENT), ("subscription", pa.string()), ("principal", pa.string())]
        kinds = pa.schema([*own, *((each, pa.int64()) for each in COUNTERS)])
        return self._part("reports", name, moment, pa.Table.from_pylist(list(rows), schema=kinds), "at", fold_from)

    def snapshot(self, name: str, since: datetime, rows: Iterable[tuple[str, str, str, str]]) -> Path:
        names = ("id", "principal", "host", "filter")
        listed = [dict(zip(names, row, strict=True)) for row in rows]
        table = pa.Table.from_pylist(listed, schema=pa.schema([(each, pa.string()) for each in names]))
        microseconds = (since - datetime(1970, 1, 1, tzinfo=since.tzinfo)) // timedelta(microseconds=1)
        return self._table(f"subscriptions/schema={_quoted(name)}/since-{microseconds:018d}.parquet", table)

    def _part(self, kind: str, name: str, moment: int, table: Any, at: str, fold_from: int | None) -> Path:
        hour = table[at][0].as_py()
        folder = f"{kind}/schema={_quoted(name)}/date={hour:%Y-%m-%d}/hour={hour:%H}"
        key = f"part-{moment:015d}-000001" if fold_from is None else f"fold-{fold_from:015d}-{moment:015d}"
        return self._table(f"{folder}/{key}-5f0c1b2a.parquet", table)

    def _table(self, path: str, table: Any) -> Path:
        return self._written(
            path, lambda file: pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        )

    def _json(self, path: str, data: Any) -> Path:
        return self._written(path, lambda file: file.write_text(json.dumps(data)))

    def _written(self, path: str, write: Any) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
        return file


def _quoted(name: str) -> str:
    safe = quote(name, safe="")
    return f"%2E{safe[1:]}" if safe.startswith(".") else safe


def _free(name: str, taken: set[str]) -> str:
    return _free(f"_{name}", taken) if name in taken else name

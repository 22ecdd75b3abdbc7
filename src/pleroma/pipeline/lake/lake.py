"""The lake: collected schemas, plans, sampled events, reports and subscriptions, in a folder or on any file system.

The controller lands (writes), everybody reads. Callers give and get values; only this file and the storage below know
files. What is landed is whole or not there, and never changes: a plan and a snapshot are valid until the next begins.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.content import Filter, Schema
from pleroma.content.arrow_columns import filters_from_column, filters_to_column, from_columns, to_columns
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError, IndexingError, LakeError, UnknownName
from pleroma.index import IndexPlan
from pleroma.pipeline.lake import compaction, lake_layout
from pleroma.pipeline.lake.lake_layout import (
    LandedFile,
    LandedPlan,
    LandedSnapshot,
    PartKind,
    ReportRow,
    SubscriptionRow,
    SubscriptionSnapshot,
)
from pleroma.pipeline.lake.moments import utc
from pleroma.pipeline.lake.retention import expired
from pleroma.pipeline.lake.storage import SCHEMA_LABEL, Storage, read_table

__all__ = ["Lake", "LandedFile", "LandedPlan", "LandedSnapshot", "ReportRow", "SubscriptionRow", "SubscriptionSnapshot"]

_HOURS = "datetime64[h]"
Moments = Sequence[datetime] | NDArray[np.datetime64]


class Lake:
    """One process lands, from as many threads as it likes; any number read."""

    def __init__(self, url: str, storage: Storage) -> None:
        self.url = url
        self.storage = storage
        self._landing = Lock()
        self._moment: int | None = None
        self._sequence = 0

    @classmethod
    def at(cls, url: str) -> Lake:
        """The lake in a folder or at a URI. The `url` of a folder is absolute, so that other processes find it."""
        storage = Storage.at(url)
        return cls(url if "://" in url else storage.root, storage)

    def land_schema(self, schema: Schema) -> None:
        path = lake_layout.schema_path(schema.name)
        with self._landing:
            if self.storage.exists(path):
                if self.schema(schema.name) != schema:
                    raise LakeError("the lake has another schema of this name", field="schema", value=schema.name)
                return
            self.storage.write_text(path, json.dumps(schema.to_json(), ensure_ascii=False, allow_nan=False))

    def land_plan(self, plan: IndexPlan, members: int | None, since: datetime) -> None:
        """The plan in force from a moment on. One that is there already stays as it is."""
        name = plan.schema.name
        path = lake_layout.plan_path(name, plan.epoch)
        with self._landing:
            if self.storage.exists(path):
                if self._plan(path).plan.checksum != plan.checksum:
                    reason = f"the lake has another plan {plan.epoch} of {name!r}: it is the lake of another log"
                    raise LakeError(reason, field="epoch", value=plan.epoch)
                return
            text = {"since": utc(since).isoformat(), "members": members, "plan": json.loads(plan.dumps())}
            self.storage.write_text(path, json.dumps(text, ensure_ascii=False, allow_nan=False))

    def land_events(self, events: EventBatch, at: Moments, epoch: int, rate: float) -> None:
        """Events that were published at these moments, and drawn from all with this probability."""
        schema, names = events.schema, lake_layout.EventColumns.of(events.schema)
        for hour, rows, moments in _by_hour(_moments(at, len(events))):
            own = {
                names.at: pa.array(moments, lake_layout.MOMENT_TYPE),
                names.epoch: pa.array(np.full(len(rows), epoch, np.int32)),
                names.rate: pa.array(np.full(len(rows), rate, np.float64)),
            }
            self._land("events", schema, hour, pa.table(own | to_columns(events[rows])), numbered=names.id)

    def land_reports(self, schema: str, at: datetime | Sequence[datetime], rows: Sequence[ReportRow]) -> None:
        """What was reported at a moment, or each row at its own."""
        given = _moments([at] * len(rows) if isinstance(at, datetime) else at, len(rows))
        for hour, chosen, moments in _by_hour(given):
            listed = [rows[row] for row in chosen.tolist()]
            columns = dict(zip(ReportRow._fields, zip(*listed, strict=True), strict=True))
            table = pa.table(
                {"at": pa.array(moments, lake_layout.MOMENT_TYPE)} | columns, schema=lake_layout.REPORT_SCHEMA
            )
            self._land("reports", self.schema(schema), hour, table)

    def land_subscriptions(
        self, schema: str, since: datetime, rows: Sequence[tuple[str, str, str, Filter | str]]
    ) -> None:
        """All subscriptions from a moment on, as rows of id, principal, host, and the filter or its JSON as text."""
        ids, principals, hosts, filters = zip(*rows, strict=True) if rows else ((), (), (), ())
        written = filters_to_column(filters)
        columns = {"id": ids, "principal": principals, "host": hosts, "filter": written}
        table = pa.table(columns, schema=lake_layout.SNAPSHOT_SCHEMA)
        more = {lake_layout.SINCE_LABEL: utc(since).isoformat().encode()}
        with self._landing:
            self.storage.write_table(
                lake_layout.snapshot_path(schema, utc(since)), _labelled(table, self.schema(schema), more)
            )

    def land_sampling(self, schema: str, rate: float) -> None:
        """Keep the sampling rate that was chosen for a schema, in place of the one chosen before."""
        with self._landing:
            self.storage.write_text(lake_layout.sampling_path(schema), json.dumps({"rate": rate}))

    def _land(self, kind: PartKind, schema: Schema, hour: datetime, table: Any, numbered: str | None = None) -> None:
        """Write a part. `numbered` is the name of a column to add, with a number for each row that no other row has."""
        # files appear in the order of their names: a reader that has seen a name will never see a smaller one appear
        with self._landing:
            moment = self._next_moment()
            self._sequence += 1
            key = lake_layout.part_key(moment, self._sequence % 1_000_000, secrets.token_hex(4))
            if numbered is not None:
                first = moment << lake_layout.ROW_BITS
                table = table.add_column(0, numbered, pa.array(np.arange(first, first + len(table))))
            self.storage.write_table(lake_layout.part_path(kind, schema.name, hour, key), _labelled(table, schema))

    def _next_moment(self) -> int:
        """The time in milliseconds, but later than any part there is, whatever the clock says."""
        if self._moment is None:
            paths = (each.path for kind in lake_layout.PART_KINDS for each in self.storage.listed(kind))
            self._moment = max((lake_layout.moment_of(path.rpartition("/")[2]) for path in paths), default=0)
        self._moment = max(time.time_ns() // 1_000_000, self._moment + 1)
        return self._moment

    def schemas(self) -> list[str]:
        found = (lake_layout.schema_name(each.path) for each in self.storage.listed("schemas"))
        return sorted(name for name in found if name is not None)

    def chosen(self, name: str | None) -> str:
        """The schema of this name, or the only one there is."""
        if name is not None:
            return self.schema(name).name
        known = self.schemas()
        if len(known) != 1:
            raise LakeError(f"which schema? The lake has {', '.join(known) or 'none'}", field="schema")
        return known[0]

    def schema(self, name: str) -> Schema:
        path = lake_layout.schema_path(name)
        if not self.storage.exists(path):
            known = self.schemas()
            reason = UnknownName("schema", name, known).reason if known else "there is no lake here, or an empty one"
            raise LakeError(reason, field=self.url, value=name)
        try:
            return Schema.from_json(json.loads(self.storage.read_text(path)))
        except (ContentError, ValueError, RecursionError) as error:
            raise LakeError(f"is no schema: {error}", field=path) from None

    def sampling(self, name: str) -> float | None:
        """The sampling rate that was chosen for a schema, if one was."""
        path = lake_layout.sampling_path(name)
        if not self.storage.exists(path):
            return None
        try:
            rate = float(json.loads(self.storage.read_text(path))["rate"])
        except (KeyError, TypeError, ValueError) as error:
            raise LakeError(f"is no rate: {error}", field=path) from None
        return rate

    def plan(self, name: str, epoch: int) -> LandedPlan | None:
        """The plan of an epoch; None if it was not landed."""
        path = lake_layout.plan_path(name, epoch)
        return self._plan(path) if self.storage.exists(path) else None

    def plans(self, name: str) -> list[LandedPlan]:
        """All plans of a schema, oldest first."""
        paths = (each.path for each in self.storage.listed(lake_layout.folder("plans", name)))
        return sorted(self._plan(path) for path in paths if lake_layout.plan_epoch(path) is not None)

    def subscriptions(self, name: str, at: datetime | None = None) -> SubscriptionSnapshot:
        """The snapshot that is valid at a moment, or the newest."""
        schema = self.schema(name)
        end = None if at is None else utc(at) + timedelta(microseconds=1)
        snapshots = self.snapshots(name, end=end)
        if not snapshots:
            when = "" if at is None else f" of {utc(at).isoformat()}"
            raise LakeError(f"there is no snapshot of the subscriptions{when}", field="schema", value=name)
        return self.snapshot(schema, snapshots[-1])

    def snapshot(self, schema: Schema, landed: LandedSnapshot) -> SubscriptionSnapshot:
        """What one of the `snapshots` holds."""
        path, since, until = landed
        table = read_table(self.storage.system, path, lake_layout.checksum(schema), lake_layout.SNAPSHOT_SCHEMA)
        try:
            filters = filters_from_column(schema, table["filter"])
        except ContentError as error:
            raise LakeError(str(error), field=path, value=error.value) from None
        others = (table[each].to_pylist() for each in ("id", "principal", "host"))
        return SubscriptionSnapshot(since, until, list(map(SubscriptionRow, *others, filters)))

    def snapshots(self, name: str, start: datetime | None = None, end: datetime | None = None) -> list[LandedSnapshot]:
        """The snapshots that are valid at some moment of `[start, end)`, oldest first."""
        paths = (each.path for each in self.storage.listed(lake_layout.folder("subscriptions", name)))
        moments = sorted((since, path) for path in paths if (since := lake_layout.snapshot_since(path)) is not None)
        untils = [*(since for since, _ in moments[1:]), None][: len(moments)]
        return [
            LandedSnapshot(f"{self.storage.root}/{path}", since, until)
            for (since, path), until in zip(moments, untils, strict=True)
            if (end is None or since < utc(end)) and (start is None or until is None or until > utc(start))
        ]

    def files(
        self, kind: PartKind, name: str, start: datetime | None = None, end: datetime | None = None
    ) -> list[LandedFile]:
        """The parts of the hours that have something of `[start, end)` in them, in the order of their landing.

        Parts that were put together are one file, in the place of the last of them.
        """
        below = (
            lake_layout.landed_file(each.path, each.size)
            for each in self.storage.listed(lake_layout.folder(kind, name))
        )
        found = [
            each._replace(path=f"{self.storage.root}/{each.path}")
            for each in below
            if each is not None
            and (end is None or lake_layout.hour_of(each) < utc(end))
            and (start is None or lake_layout.hour_of(each) + lake_layout.ONE_HOUR > utc(start))
        ]
        folded = {part.path for part, _ in lake_layout.folded(found)}
        return sorted((each for each in found if each.path not in folded), key=lambda each: (each.last, each.key))

    def table(self, kind: PartKind, name: str, file: LandedFile) -> Any:
        """The rows of a part, as a table of Arrow."""
        schema = self.schema(name)
        return read_table(
            self.storage.system, file.path, lake_layout.checksum(schema), lake_layout.columns_of(kind, schema)
        )

    def events(self, name: str, file: LandedFile) -> EventBatch:
        """The events of a part."""
        schema = self.schema(name)
        table = self.table("events", name, file)
        try:
            return from_columns(schema, {each: table[each] for each in schema.names})
        except ContentError as error:
            raise LakeError(str(error), field=file.path, value=error.value) from None

    def fold(self, before: datetime, max_parts: int = compaction.MAX_FOLDED_PARTS) -> int:
        """Put small parts of hours that were over by `before` together, about so many at once; returns how many."""
        with self._landing:  # so that of every hour all parts up to the last one listed are listed
            return compaction.fold(self, utc(before), max_parts)

    def expire(self, older_than: datetime) -> int:
        """Remove what only tells of moments before `older_than`; returns how many files. Schemas and plans stay."""
        gone = list(expired(self.storage, utc(older_than), time.time()))
        for path in gone:
            self.storage.remove(path)
        return len(gone)

    def _plan(self, path: str) -> LandedPlan:
        try:
            data = json.loads(self.storage.read_text(path))
            since, members = utc(datetime.fromisoformat(data["since"])), data["members"]
            plan = IndexPlan.loads(json.dumps(data["plan"]))
        except (ContentError, IndexingError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise LakeError(f"is no plan: {error}", field=path) from None
        return LandedPlan(plan.epoch, since, members, plan)


def _labelled(table: Any, schema: Schema, more: dict[bytes, bytes] | None = None) -> Any:
    return table.replace_schema_metadata({SCHEMA_LABEL: lake_layout.checksum(schema).encode(), **(more or {})})


def _moments(given: Moments, rows: int) -> NDArray[np.datetime64]:
    if isinstance(given, np.ndarray):
        moments = given.astype("datetime64[us]")
    else:
        moments = np.array([lake_layout.microseconds(utc(each)) for each in given], np.int64).astype("datetime64[us]")
    if moments.shape != (rows,) or np.isnat(moments).any():
        raise LakeError(f"{rows} rows need as many moments", field="at", value=len(moments))
    return moments


def _by_hour(moments: NDArray[np.datetime64]) -> Iterator[tuple[datetime, NDArray[np.intp], NDArray[np.datetime64]]]:
    """Rows by the hour they belong to, with their moments; the rows of an hour in portions that one part can hold."""
    hours = moments.astype(_HOURS)
    for hour in np.unique(hours):
        rows = np.flatnonzero(hours == hour)
        for first in range(0, len(rows), lake_layout.MAX_PART_ROWS):
            piece = rows[first : first + lake_layout.MAX_PART_ROWS]
            yield hour.astype("datetime64[s]").item().replace(tzinfo=UTC), piece, moments[piece]

"""The lake: what was collected of schemas, plans, events, reports, registrations and the network, as Delta tables.

Controllers land, everybody reads. Callers give and get values; this file knows what they mean as rows, and `LakeTable`
knows Delta. Nothing that was landed changes: a plan, a schema or a network is valid until the next begins.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.content import Filter, Schema
from pleroma.content.arrow_columns import from_columns
from pleroma.content.batch import EventBatch
from pleroma.content.schema_versions import obstacles
from pleroma.errors import ContentError, DamagedFile, IndexingError, LakeError, TopologyError, UnknownName
from pleroma.index import IndexPlan
from pleroma.pipeline.lake.event_rows import events_landing, reports_landing
from pleroma.pipeline.lake.lake_table import LakeTable, Landing, TableState
from pleroma.pipeline.lake.lake_tables import (
    TABLES,
    EventColumns,
    SharedTable,
    attribute_columns,
    event_table,
    is_nameable,
)
from pleroma.pipeline.lake.landed import (
    REGISTRATION_TABLES,
    BatchId,
    LandedPlan,
    LandedTopology,
    RefusedFile,
    RegistrationRow,
    RegistrationTable,
    ReportedCounters,
    SampledEvents,
)
from pleroma.pipeline.lake.landed_registrations import LandedRegistrations
from pleroma.pipeline.lake.moments import ONE_MICROSECOND, microseconds, utc
from pleroma.pipeline.lake.registration_history import RegistrationHistory
from pleroma.pipeline.lake.store import lake_url
from pleroma.pipeline.lake.table_files import Condition
from pleroma.routing import SwitchId, Topology
from pleroma.routing.topology_files import from_json as topology_from_json
from pleroma.routing.topology_files import to_json as topology_to_json

Moments = Sequence[datetime] | NDArray[np.datetime64]

_CONTROLLERS_TABLES: tuple[SharedTable, ...] = ("schemas", "plans", *REGISTRATION_TABLES, "reports", "topology")

log = logging.getLogger("pleroma.pipeline")


class Lake:
    """Any number of processes and threads may land and read at the same time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = RLock()
        self._tables: dict[str, LakeTable] = {}
        self._read: dict[SharedTable, tuple[int, list[dict[str, Any]]]] = {}
        """The rows of small tables, with the version that they are of."""
        self._registrations = {kind: LandedRegistrations(self, kind) for kind in REGISTRATION_TABLES}

    @classmethod
    def at(cls, url: str) -> Lake:
        """The lake in a folder or at a URI. The `url` of a folder is absolute, so that other processes find it."""
        return cls(lake_url(url))

    def table(self, name: SharedTable) -> LakeTable:
        with self._lock:
            return self._tables.setdefault(name, LakeTable(self.url, TABLES[name]))

    def event_table(self, name: str) -> LakeTable:
        made = event_table(self.schema(name))
        with self._lock:
            known = self._tables.get(made.path)
            if known is None or known.definition != made:
                self._tables[made.path] = known = LakeTable(self.url, made)
            return known

    def check(self) -> None:
        """Make the tables that a controller lands in; raise if that cannot be."""
        for name in _CONTROLLERS_TABLES:
            self.table(name).create()

    def land_schema(self, schema: Schema, since: datetime | None = None) -> None:
        """A schema from a moment on. It may differ from those before, but for the types of attributes of both.

        One that is known already may be known from an earlier moment on.
        """
        if not is_nameable(schema.name):
            raise LakeError("this name of a schema is too long for a folder", field="schema", value=schema.name)
        text = json.dumps(schema.to_json(), ensure_ascii=False, allow_nan=False)
        key = f"schema {schema.name}"

        def decide(state: TableState) -> Landing | None:
            known, moment = self._last("schemas", schema.name), since
            if known is not None and _schema(known) != schema:
                for each in self._rows("schemas"):
                    if each["schema"] == schema.name:
                        _check_fits(_schema(each), schema)
                moment = _after(known, since)
            elif known is not None and (since is None or utc(since) >= self.known_since(schema.name)):
                return None
            row = {"schema": schema.name, "since": utc(moment or datetime.now(UTC)), "definition": text}
            return Landing(_table("schemas", [row | {"rate": known and known["rate"]}]), {key: state.landed(key) + 1})

        self.table("schemas").land(decide)

    def land_sampling(self, name: str, rate: float) -> None:
        """Keep the sampling rate that was chosen for a schema, in place of the one chosen before."""
        key = f"schema {name}"

        def decide(state: TableState) -> Landing | None:
            known = self._last("schemas", name)
            if known is None:
                raise self._unknown(name)
            row = known | {"rate": rate, "since": _after(known, None)}
            return Landing(_table("schemas", [row]), {key: state.landed(key) + 1})

        self.table("schemas").land(decide)

    def land_plan(self, plan: IndexPlan, since: datetime) -> None:
        """The plan in force from a moment on. One that is there already stays as it is."""
        name = plan.schema.name
        key = f"plan of {name}"

        def decide(state: TableState) -> Landing | None:
            known = self.plan(name, plan.epoch)
            if known is not None and known.plan.checksum != plan.checksum:
                reason = f"the lake has another plan {plan.epoch} of {name!r}: it is the lake of another log"
                raise LakeError(reason, field="epoch", value=plan.epoch)
            if known is not None:
                return None
            row = {"schema": name, "epoch": plan.epoch, "since": utc(since), "members": plan.members}
            row["plan"] = plan.dumps()
            return Landing(_table("plans", [row]), {key: max(plan.epoch, state.landed(key))})

        self.table("plans").land(decide)

    def land_events(
        self, events: EventBatch, at: Moments, epoch: int, rate: float, batch: BatchId | None = None
    ) -> int:
        """Events that were published at these moments, and drawn from all with this probability."""
        return self.land_samples([SampledEvents(events, _moments(at), epoch, rate, batch)])

    def land_samples(self, samples: Sequence[SampledEvents]) -> int:
        """Events of one schema, in one commit: how many rows it made. Batches that the lake has are passed over."""
        name = samples[0].events.schema.name
        schema, table = self.schema(name), self.event_table(name)
        if any(obstacles(each.events.schema, schema) for each in samples):
            raise LakeError("these events are of another schema of this name", field="schema", value=name)
        return table.land(
            events_landing(schema, [each._replace(events=each.events.lifted(schema)) for each in samples])
        )

    def land_reports(self, reported: Sequence[ReportedCounters]) -> int:
        """What subscribers counted, in one commit: how many rows it made.

        Batches that the lake has are passed over, and those of a schema that no lake can have.
        """
        return self.table("reports").land(reports_landing([each for each in reported if is_nameable(each.schema)]))

    def registrations(self, kind: RegistrationTable) -> LandedRegistrations:
        return self._registrations[kind]

    def land_subscriptions(
        self,
        name: str,
        since: datetime,
        rows: Iterable[RegistrationRow | tuple[str, str, str, Filter | str]],
        position: int | None = None,
    ) -> int:
        """All subscriptions of a schema from a moment on: how many began or ended."""
        return self.registrations("subscriptions").land(name, since, rows, position)

    def land_topology(
        self, topology: Topology, rooms: Mapping[str, int], since: datetime, position: int | None = None
    ) -> bool:
        """The network from a moment on, with what its switches turned out to have room for; False if it is known."""
        row: dict[str, Any] = {
            "position": position,
            "topology": json.dumps(topology_to_json(topology), ensure_ascii=False, allow_nan=False),
            "limits": sorted(topology.limits.items()),
            "rooms": sorted(rooms.items()),
        }

        def decide(state: TableState) -> Landing | None:
            last = max(self._rows("topology"), key=lambda each: each["since"], default=None)
            if last is not None and all(last[each] == row[each] for each in ("topology", "limits", "rooms")):
                return None
            row["since"] = _after(last, since)
            return Landing(_table("topology", [row]), {"topology": state.landed("topology") + 1})

        return bool(self.table("topology").land(decide))

    def refuse(self, table: str, path: str, error: LakeError) -> None:
        """Note that a file of a table cannot be read and is left out; once, whoever finds it."""
        log.warning("skipped %s in the table %s: %s", path, table, error.reason)
        row = {"at": datetime.now(UTC), "table": table, "path": path, "reason": error.reason}
        key = f"{table}/{path}"

        def decide(state: TableState) -> Landing | None:
            noted = {(each["table"], each["path"]) for each in self._rows("refused")}
            again = {key: state.landed(key) + 1}
            return None if (table, path) in noted else Landing(_table("refused", [row]), {}, again)

        try:
            self.table("refused").land(decide)
        except LakeError as failure:  # a lake that may only be read is read all the same
            log.warning("%s", failure)

    def refused(self) -> list[RefusedFile]:
        """The files that were found damaged, oldest first."""
        return sorted(RefusedFile(**row) for row in self._rows("refused"))

    def schemas(self) -> list[str]:
        return sorted({row["schema"] for row in self._rows("schemas")})

    def chosen(self, name: str | None) -> str:
        """The schema of this name, or the only one there is."""
        if name is not None:
            return self.schema(name).name
        known = self.schemas()
        if len(known) != 1:
            raise LakeError(f"which schema? The lake has {', '.join(known) or 'none'}", field="schema")
        return known[0]

    def schema(self, name: str) -> Schema:
        found = self._last("schemas", name)
        if found is None:
            raise self._unknown(name)
        return _schema(found)

    def known_since(self, name: str) -> datetime:
        """From when on the lake knows of a schema, its plans and its subscriptions."""
        moments = [row["since"] for row in self._rows("schemas") if row["schema"] == name]
        if not moments:
            raise self._unknown(name)
        return min(moments)

    def sampling(self, name: str) -> float | None:
        """The sampling rate that was chosen for a schema, if one was."""
        found = self._last("schemas", name)
        return None if found is None else found["rate"]

    def plan(self, name: str, epoch: int) -> LandedPlan | None:
        """The plan of an epoch; None if it was not landed."""
        return next((_plan(row) for row in self._rows("plans") if (row["schema"], row["epoch"]) == (name, epoch)), None)

    def plans(self, name: str) -> list[LandedPlan]:
        """All plans of a schema, oldest first."""
        found = (_plan(row) for row in self._rows("plans") if row["schema"] == name)
        return sorted(found, key=lambda each: each.epoch)

    def subscriptions(self, name: str, at: datetime | None = None) -> list[RegistrationRow]:
        """The subscriptions in force at a moment, or now."""
        return self.registrations("subscriptions").at(name, at)

    def advertisements(self, name: str, at: datetime | None = None) -> list[RegistrationRow]:
        """The advertisements in force at a moment, or now: none if the lake is of before they were landed."""
        return self.registrations("advertisements").at(name, at)

    def subscription_history(
        self, name: str, start: datetime | None = None, end: datetime | None = None
    ) -> RegistrationHistory:
        """Every subscription that was in force at some moment of `[start, end)`."""
        return self.registrations("subscriptions").history(name, start, end)

    def topology(self, at: datetime | None = None) -> LandedTopology | None:
        """The network as it was at a moment, or as it is; None if the lake does not know it."""
        rows = [row for row in self._rows("topology") if at is None or row["since"] <= utc(at)]
        return _topology(max(rows, key=lambda row: row["since"])) if rows else None

    def event_hours(self, name: str) -> list[str]:
        """The hours that have events, such as 2026-11-15T16."""
        return sorted({str(file.partition[0][1]) for file in self.event_table(name).files()})

    def events(self, name: str, start: datetime | None = None, end: datetime | None = None) -> EventBatch:
        """The events of `[start, end)`, in the order of their ids: as many as memory holds."""
        schema = self.schema(name)
        names, columns = EventColumns.of(schema), attribute_columns(schema)
        table = self.event_table(name)
        rows = table.rows(between(names.at, start, end), [names.id, *columns.values()], self.noting(table))
        return _attributes(schema, rows.sort_by(names.id), columns)

    def noting(self, table: LakeTable) -> Callable[[str, LakeError], None]:
        """For those who read a table: what to do with a damaged file."""
        return lambda path, error: self.refuse(table.definition.path, path, error)

    def _rows(self, name: SharedTable) -> list[dict[str, Any]]:
        """All rows of a small table, read again when the table has changed."""
        table = self.table(name)
        version = table.version
        with self._lock:
            known = self._read.get(name)
        if known is None or known[0] != version:
            known = version, table.rows(on_damage=None if name == "refused" else self.noting(table)).to_pylist()
            with self._lock:
                self._read[name] = known
        return known[1]

    def _last(self, name: SharedTable, schema: str) -> dict[str, Any] | None:
        rows = [row for row in self._rows(name) if row["schema"] == schema]
        return max(rows, key=lambda row: row["since"], default=None)

    def _unknown(self, name: str) -> LakeError:
        known = self.schemas()
        reason = UnknownName("schema", name, known).reason if known else "there is no lake here, or an empty one"
        return LakeError(reason, field=self.url, value=name)


def between(column: str, start: datetime | None, end: datetime | None) -> tuple[Condition, ...]:
    """Conditions on a column of moments: from `start` on and before `end`."""
    first = () if start is None else (Condition(column, ">=", utc(start)),)
    return first if end is None else (*first, Condition(column, "<", utc(end)))


def _table(name: SharedTable, rows: Sequence[Mapping[str, Any]]) -> Any:
    kinds = TABLES[name].schema
    return pa.table({each: pa.array([row[each] for row in rows], kinds.field(each).type) for each in kinds.names})


def _after(row: Mapping[str, Any] | None, since: datetime | None) -> datetime:
    """A moment, or now; but after the row before, whatever the clock says: the last row is the one that is valid."""
    moment = utc(since or datetime.now(UTC))
    return moment if row is None else max(moment, row["since"] + ONE_MICROSECOND)


def _attributes(schema: Schema, rows: Any, columns: Mapping[str, str]) -> EventBatch:
    try:
        return from_columns(schema, {name: rows[column] for name, column in columns.items()})
    except ContentError as error:
        raise LakeError(str(error), field="events", value=error.value) from None


def _schema(row: Mapping[str, Any]) -> Schema:
    try:
        return Schema.from_json(json.loads(row["definition"]))
    except (ContentError, ValueError, RecursionError) as error:
        raise LakeError(f"is no schema: {error}", field=f"schema {row['schema']}") from None


def _plan(row: Mapping[str, Any]) -> LandedPlan:
    try:
        return LandedPlan.of(IndexPlan.loads(row["plan"]), row["members"], row["since"])
    except (ContentError, IndexingError, ValueError, RecursionError) as error:
        raise DamagedFile(f"is no plan: {error}", field=f"plan {row['epoch']} of {row['schema']}") from None


def _topology(row: Mapping[str, Any]) -> LandedTopology:
    try:
        network = topology_from_json(json.loads(row["topology"]))
    except (TopologyError, UnknownName, ValueError, RecursionError) as error:
        raise LakeError(f"is no topology: {error}", field="topology") from None
    return LandedTopology(row["since"], network, {SwitchId(each): room for each, room in row["rooms"]})


def _check_fits(before: Schema, after: Schema) -> None:
    """Refuse a schema whose events cannot be in one table with those before: a column means one thing for ever."""
    known = {each.name.lower(): each for each in event_table(before).columns}
    for column in event_table(after).columns:
        found = known.get(column.name.lower(), column)
        if found.type != column.type:
            reason = f"the lake has another type for {column.name}, {found.type}"
            raise LakeError(reason, field=after.name, value=str(column.type))
        if (found.name, found.meaning) != (column.name, column.meaning):
            reason = f"the lake has a column {found.name} for something else: {found.meaning}"
            raise LakeError(reason, field=after.name, value=column.name)


def _moments(given: Moments) -> NDArray[np.datetime64]:
    if isinstance(given, np.ndarray):
        return given.astype("datetime64[us]")
    return np.array([microseconds(utc(each)) for each in given], np.int64).astype("datetime64[us]")

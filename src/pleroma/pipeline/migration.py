"""Migration: a lake of the old layout becomes one of Delta tables, once.

Each table remembers, for good, how far the old files were landed in it. So a migration that was stopped and is begun
again goes on where it was, and one that is repeated changes nothing. Files that cannot be read are named in `refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from pleroma.content import Schema
from pleroma.errors import DamagedFile, LakeError
from pleroma.pipeline.lake.event_rows import ROW_BITS
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import LANDING, LakeTable, Landing, TableState
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns
from pleroma.pipeline.lake.moments import hours_of, microseconds
from pleroma.pipeline.lake.old_layout import OldFile, OldKind, OldLake
from pleroma.pipeline.lake.registration_history import (
    BEGUN,
    OVER,
    RegistrationText,
    TimedRegistration,
    changed,
    table_of,
)
from pleroma.pipeline.lake.table_files import Condition
from pleroma.pipeline.watch.journal import Journal
from pleroma.replanning.decisions import Decision
from pleroma.replanning.windows import TrafficWindow

ROWS_AT_ONCE = 1 << 18
"""About so many rows become one landing."""
_MIGRATED = "migrated"
_TIE_BITS = 10
"""Files of two writers may be of the same millisecond."""

T = TypeVar("T")


@dataclass(slots=True)
class MigrationResult:
    """What was landed: what the new lake had already is not counted."""

    events: int = 0
    reports: int = 0
    subscriptions: int = 0
    plans: int = 0
    windows: int = 0
    decisions: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Old files that could not be read, by path, with what is wrong."""


class _OldRows(NamedTuple):
    number: int
    """How far the old files have come with these rows."""
    rows: Any


def migrate(old: OldLake, lake: Lake, advance: Callable[[float], None] = lambda _: None) -> MigrationResult:
    """Land everything that an old lake has. `advance` is called with the number of old files that are done."""
    if f"{lake.url}/".startswith(f"{old.url}/"):
        raise LakeError("the new lake has a place of its own, not in the old one", field="lake", value=lake.url)
    return _Migration(old, lake, advance).done()


class _Migration:
    def __init__(self, old: OldLake, lake: Lake, advance: Callable[[float], None]) -> None:
        self._old, self._lake, self._advance = old, lake, advance
        self._result = MigrationResult()

    def done(self) -> MigrationResult:
        for file in self._old.files("schemas"):
            schema = self._read(file, "schemas", self._old.schema)
            if schema is not None:
                self._migrate(schema)
        return self._result

    def _migrate(self, schema: Schema) -> None:
        name, lake, old, result = schema.name, self._lake, self._old, self._result
        plans = list(self._values("plans", name, old.plan))
        snapshots = list(self._values("subscriptions", name, partial(old.snapshot, schema=schema)))
        if name in lake.schemas() and lake.schema(name) != schema:
            raise LakeError("the new lake has another schema of this name", field="schema", value=name)
        beginnings = [since for since, _ in snapshots[:1]] or [each.since for each in plans[:1]]
        lake.land_schema(schema, min(beginnings, default=None))
        for rate in self._values("sampling", name, old.rate):
            if lake.sampling(name) is None:
                lake.land_sampling(name, rate)
        for plan in plans:
            result.plans += lake.plan(name, plan.epoch) is None
            lake.land_plan(plan.plan, plan.since)
        result.subscriptions += self._land_subscriptions(schema, snapshots)
        events = partial(old.events, schema=schema)
        result.events += self._land_files("events", lake.event_table(name), name, events, _event_rows(schema))
        result.reports += self._land_files("reports", lake.table("reports"), name, old.reports, _report_rows(name))
        journal = Journal(lake, name)
        result.windows += sum(map(journal.publish, self._values("windows", name, self._window)))
        result.decisions += sum(map(journal.record, self._values("decisions", name, self._decision)))

    def _window(self, file: OldFile) -> TrafficWindow:
        return _parsed(file, TrafficWindow.from_json, self._old.json(file))

    def _decision(self, file: OldFile) -> Decision:
        return _parsed(file, Decision.from_json, self._old.json(file))

    def _land_files(
        self,
        kind: OldKind,
        table: LakeTable,
        name: str,
        read: Callable[[OldFile], Any],
        rows: Callable[[Any, int], Any],
    ) -> int:
        """Land the rows of old files that have not been landed, in the order of their landings: how many rows."""
        key, count = f"{_MIGRATED} {kind} of {name}", 0
        come = table.landed(key)
        for batch in self._batches(kind, name, table, read, come):

            def decide(state: TableState, batch: _OldRows = batch, come: int = come) -> Landing | None:
                if state.landed(key) != come:
                    raise LakeError("somebody else is migrating to the same lake", field="lake", value=self._lake.url)
                landing = state.next_landing
                return Landing(rows(batch.rows, landing), {LANDING: landing, key: batch.number})

            count += table.land(decide)
            come = batch.number
        return count

    def _batches(
        self, kind: OldKind, name: str, table: LakeTable, read: Callable[[OldFile], Any], come: int
    ) -> Iterator[_OldRows]:
        """The rows of old files after a number, about `ROWS_AT_ONCE` together."""
        held: list[Any] = []
        number = -1
        for file in self._of_schema(kind, name):
            number = max(file.last << _TIE_BITS, number + 1)
            rows = self._read(file, table.definition.path, read) if number > come else None
            held += [] if rows is None else [rows]
            if sum(map(len, held)) >= ROWS_AT_ONCE:
                yield _OldRows(number, pa.concat_tables(held))
                held = []
        if held:
            yield _OldRows(number, pa.concat_tables(held))

    def _land_subscriptions(self, schema: Schema, snapshots: Sequence[tuple[datetime, list[RegistrationText]]]) -> int:
        """Land the differences between snapshots, all at once: how many subscriptions."""
        over: list[TimedRegistration] = []
        in_force: dict[str, TimedRegistration] = {}
        for since, rows in snapshots:
            ending, _, in_force = changed(in_force, rows, since)
            over += ending
        key, latest = f"{_MIGRATED} subscriptions of {schema.name}", f"latest subscriptions of {schema.name}"
        table, landed = self._lake.table("subscriptions"), [*over, *in_force.values()]

        def decide(state: TableState) -> Landing | None:
            if state.landed(key) > 0:
                return None
            begun = table.rows((Condition("schema", "==", schema.name),), ["since"])["since"].to_pylist()
            entries = list(_until(landed, min(begun))) if begun else landed
            states = (
                (OVER, [each for each in entries if each.until]),
                (BEGUN, [each for each in entries if not each.until]),
            )
            rows = pa.concat_tables([table_of("subscriptions", schema, chosen, name) for name, chosen in states])
            return Landing(rows, {key: 1, latest: max(microseconds(snapshots[-1][0]), state.landed(latest))})

        return table.land(decide) if snapshots else 0

    def _of_schema(self, kind: OldKind, name: str) -> list[OldFile]:
        return [file for file in self._old.files(kind) if file.schema == name]

    def _values(self, kind: OldKind, name: str, read: Callable[[OldFile], T]) -> Iterator[T]:
        for file in self._of_schema(kind, name):
            found = self._read(file, kind, read)
            if found is not None:
                yield found

    def _read(self, file: OldFile, table: str, read: Callable[[OldFile], T]) -> T | None:
        """What a file has; None if it cannot be read, which is noted then."""
        try:
            return read(file)
        except DamagedFile as error:
            self._result.refused[file.path] = error.reason
            self._lake.refuse(table, f"{self._old.url}/{file.path}", error)
            return None
        finally:
            self._advance(1)


def _until(entries: Iterable[TimedRegistration], end: datetime) -> Iterator[TimedRegistration]:
    """What was in force before a moment, as if all had ended by then: a controller has landed what came after."""
    for row, since, until in entries:
        if since < end:
            yield TimedRegistration(row, since, min(until or end, end))


def _parsed(file: OldFile, parse: Callable[[Any], T], data: Any) -> T:
    try:
        return parse(data)
    except LakeError as error:
        raise DamagedFile(error.reason, field=file.path) from None


def _event_rows(schema: Schema) -> Callable[[Any, int], Any]:
    """What old rows of events are as rows of a landing."""
    names, columns = EventColumns.of(schema), attribute_columns(schema)

    def rows(old: Any, landing: int) -> Any:
        _, at, epoch, rate = (old.column(place) for place in range(4))  # whatever these columns are called
        own = {
            names.hour: _hours(at),
            names.landing: np.full(len(old), landing),
            names.id: (landing << ROW_BITS) + np.arange(len(old)),
            names.at: at,
            names.epoch: epoch,
            names.rate: rate,
            names.principal: pa.nulls(len(old), pa.string()),  # nobody noted it then
        }
        return pa.table(own | {columns[each]: old[each] for each in schema.names})

    return rows


def _report_rows(name: str) -> Callable[[Any, int], Any]:
    def rows(old: Any, landing: int) -> Any:
        own = {"schema": [name] * len(old), "hour": _hours(old["at"]), "landing": np.full(len(old), landing)}
        own["wanted"] = pa.nulls(len(old), pa.int64())  # nobody counted it then
        return pa.table(own | {each: old[each] for each in old.column_names})

    return rows


def _hours(at: Any) -> Any:
    return pa.array(hours_of(at.to_numpy().astype("datetime64[us]")), pa.string())

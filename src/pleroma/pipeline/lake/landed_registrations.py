"""Registrations in a lake: landing all subscriptions, or all advertisements, of a moment, and reading those of a time.

Both kinds have a table of their own with the same columns. What is landed is the difference from what was in force.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from threading import RLock
from typing import TYPE_CHECKING

import pyarrow as pa

from pleroma.content import Filter
from pleroma.pipeline.lake import registration_history as history
from pleroma.pipeline.lake.lake_table import LakeTable, Landing, TableState
from pleroma.pipeline.lake.landed import RegistrationRow, RegistrationTable
from pleroma.pipeline.lake.moments import LAST_MOMENT, ONE_MICROSECOND, from_microseconds, microseconds, utc
from pleroma.pipeline.lake.registration_history import RegistrationHistory, TimedRegistration

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake


class LandedRegistrations:
    """The registrations of one kind, of all schemas."""

    def __init__(self, lake: Lake, kind: RegistrationTable) -> None:
        self.kind = kind
        self._lake = lake
        self._lock = RLock()
        self._in_force: dict[str, tuple[int, dict[str, TimedRegistration]]] = {}
        """By schema: the registrations in force, and how far landing them had come then."""

    @property
    def table(self) -> LakeTable:
        return self._lake.table(self.kind)

    def land(
        self,
        name: str,
        since: datetime,
        rows: Iterable[RegistrationRow | tuple[str, str, str, Filter | str]],
        position: int | None = None,
    ) -> int:
        """All registrations of a schema from a moment on: how many began or ended.

        A row has id, principal, host, and the filter or its JSON as text. `position` is the place in the controllers'
        log that has these registrations: what the lake has of that place, or a later one, is left as it is.
        """
        schema = self._lake.schema(name)
        wanted = [history.written(row) for row in rows]
        key, latest = f"{self.kind} of {name}", f"latest {self.kind} of {name}"
        after: dict[int, dict[str, TimedRegistration]] = {}

        def decide(state: TableState) -> Landing | None:
            landed = state.landed(key)
            number = landed + 1 if position is None else position
            if number <= landed:
                return None
            moment = max(utc(since), from_microseconds(state.landed(latest) + 1))  # whatever the clock says
            ending, beginning, after[number] = history.changed(self._in_force_at(name, landed), wanted, moment)
            states = (ending, history.ENDED), (beginning, history.BEGUN)
            tables = [history.table_of(self.kind, schema, entries, named) for entries, named in states]
            return Landing(pa.concat_tables(tables), {key: number, latest: microseconds(moment)})

        with self._lock:
            landed = self.table.land(decide)
            if landed:
                number = max(after)
                self._in_force[name] = number, after[number]
            return landed

    def position(self, name: str) -> int:
        """The place in the controllers' log that the registrations of a schema are of; -1 if none were ever landed."""
        return self.table.landed(f"{self.kind} of {name}")

    def at(self, name: str, moment: datetime | None = None) -> list[RegistrationRow]:
        """The registrations in force at a moment, or now."""
        if moment is None:
            return self.history(name, LAST_MOMENT).in_force(LAST_MOMENT)
        asked = min(utc(moment), LAST_MOMENT - ONE_MICROSECOND)
        return self.history(name, asked, asked + ONE_MICROSECOND).in_force(asked)

    def history(self, name: str, start: datetime | None = None, end: datetime | None = None) -> RegistrationHistory:
        """Every registration that was in force at some moment of `[start, end)`."""
        entries = history.within(self._timed(name, start, end), None if start is None else utc(start))
        return RegistrationHistory(self._lake.schema(name), tuple(entries), self._lake.known_since(name))

    def _in_force_at(self, name: str, landed: int) -> dict[str, TimedRegistration]:
        """The registrations in force when landing them had come so far: what was landed last here, or what there is."""
        number, known = self._in_force.get(name, (None, {}))
        if number == landed:
            return known
        return {each.row.id: each for each in self._timed(name, LAST_MOMENT, None) if each.until is None}

    def _timed(self, name: str, start: datetime | None, end: datetime | None) -> list[TimedRegistration]:
        within = None if start is None else utc(start), None if end is None else utc(end)
        asked = tuple(history.conditions_on(name, *within))
        return history.timed(self.table.rows_by(asked, history.ENTRY_COLUMNS, self._lake.noting(self.table)))

"""Which subscriptions, or advertisements, were in force, and when: the rows of their tables, read and written.

A registration that begins is a row in state `begun`; when it ends, a row in state `ended` repeats it with its end. So
landing a change writes that change and nothing else. Now and then both rows become one in state `over` (`settling`).
Whoever asks about a stretch of time reads `begun` and `ended`, which are few then, and of `over` only what reaches into
the stretch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.errors import ContentError, DamagedFile
from pleroma.pipeline.lake.lake_tables import TABLES
from pleroma.pipeline.lake.landed import RegistrationRow, RegistrationTable
from pleroma.pipeline.lake.moments import ONE_MICROSECOND, microseconds
from pleroma.pipeline.lake.table_files import Condition

BEGUN, ENDED, OVER = "begun", "ended", "over"
UNSETTLED_DAY = "-"
_ROWS_AT_ONCE = 4096
"""While rows become values no other thread runs: so many take some milliseconds."""
_ROWS_IN_PIECE = 512
"""And so many while values become rows, since the boxes of a filter are lists of lists."""


class RegistrationText(NamedTuple):
    """A subscription or an advertisement as it is written: the filter is JSON."""

    id: str
    principal: str
    host: str
    filter: str


ENTRY_COLUMNS = (*RegistrationText._fields, "since", "until")


class TimedRegistration(NamedTuple):
    """A registration with the time that it was in force; `until` is None while it is."""

    row: RegistrationText
    since: datetime
    until: datetime | None


class RegistrationLife(NamedTuple):
    """The same with the filter parsed."""

    row: RegistrationRow
    since: datetime
    until: datetime | None


def conditions_on(name: str | None, start: datetime | None, end: datetime | None) -> Iterator[tuple[Condition, ...]]:
    """Conditions on rows: all such rows together tell what was in force in `[start, end)`, of one schema or all."""
    before = () if end is None else (Condition("since", "<", end),)
    after = () if start is None else (Condition("until", ">", start),)
    schema = () if name is None else (Condition("schema", "==", name),)
    yield (*schema, Condition("state", "in", (BEGUN, ENDED)), *before)
    yield (*schema, Condition("state", "==", OVER), *before, *after)


def timed(tables: Iterable[Any]) -> list[TimedRegistration]:
    """One entry for each registration that the rows tell of, by the time it began. Repeated rows make no difference."""
    found: dict[tuple[datetime, RegistrationText], datetime | None] = {}
    for table in tables:
        for row, since, until in entries_of(table):
            known = found.get((since, row))
            found[since, row] = until if known is None else known if until is None else min(known, until)
    return [TimedRegistration(row, since, until) for (since, row), until in sorted(found.items(), key=lambda e: e[0])]


def entries_of(table: Any) -> Iterator[TimedRegistration]:
    """What each row says, by itself."""
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for *row, since, until in zip(*(batch[name].to_pylist() for name in ENTRY_COLUMNS), strict=True):
            yield TimedRegistration(RegistrationText(*row), since, until)


def within(entries: Iterable[TimedRegistration], start: datetime | None) -> list[TimedRegistration]:
    """Those that were in force at all, and still after a moment."""
    return [
        each
        for each in entries
        if each.until is None or each.until > (each.since if start is None else max(start, each.since))
    ]


@dataclass(frozen=True)
class RegistrationHistory:
    """What was in force in a stretch of time. Filters are parsed when they are asked for."""

    schema: Schema
    entries: tuple[TimedRegistration, ...]
    known_since: datetime
    """The lake knows nothing of registrations before."""
    filters: dict[str, Filter] = field(default_factory=dict, repr=False, compare=False)
    """Those that were parsed, by their JSON."""

    @cached_property
    def moments(self) -> list[datetime]:
        """When the set of registrations in force changed, from `known_since` on."""
        changes = {self.known_since}
        for _, since, until in self.entries:
            changes |= {since} if until is None else {since, until}
        return sorted(each for each in changes if each >= self.known_since)

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """The same moments in microseconds."""
        return np.array([microseconds(each) for each in self.moments], np.int64)

    def in_force(self, moment: datetime) -> list[RegistrationRow]:
        """The registrations in force at a moment, in the order in which they began."""
        return [
            self._parsed(row)
            for row, since, until in self.entries
            if since <= moment and (until is None or moment < until)
        ]

    def standing(self, moment: datetime) -> frozenset[RegistrationText]:
        """The registrations in force at a moment as they are written, whether or not their filters can be read."""
        return frozenset(
            row for row, since, until in self.entries if since <= moment and (until is None or moment < until)
        )

    def during(self, start: datetime, end: datetime) -> list[RegistrationLife]:
        """The registrations that were in force at some moment of `[start, end)`, in the order in which they began."""
        return [
            RegistrationLife(self._parsed(row), since, until)
            for row, since, until in self.entries
            if since < end and (until is None or start < until)
        ]

    def last_in_force(self, end: datetime) -> datetime | None:
        """The last moment before `end` at which anything was in force; None if nothing was."""
        ends = [end if until is None else min(until, end) for _, since, until in self.entries if since < end]
        return max(ends) - ONE_MICROSECOND if ends else None

    def newest(self) -> list[RegistrationRow]:
        """Each registration as it was last, but for those whose filters the schema of today does not allow."""
        found = {}
        for row, _, _ in self.entries:
            with suppress(DamagedFile):
                found[row.id] = self._parsed(row)
        return list(found.values())

    def _parsed(self, row: RegistrationText) -> RegistrationRow:
        found = self.filters.get(row.filter)
        if found is None:
            try:
                found = from_json(self.schema, json.loads(row.filter))
            except (ContentError, TypeError, ValueError, RecursionError) as error:
                raise DamagedFile(f"is no filter: {error}", field=f"registration {row.id}", value=row.filter) from None
            self.filters[row.filter] = found
        return RegistrationRow(row.id, row.principal, row.host, found)


class RegistrationChange(NamedTuple):
    ending: list[TimedRegistration]
    beginning: list[TimedRegistration]
    in_force: dict[str, TimedRegistration]
    """By id: the registrations in force after the change."""


def changed(
    in_force: Mapping[str, TimedRegistration], wanted: Sequence[RegistrationText], since: datetime
) -> RegistrationChange:
    """What ends and what begins, for exactly the wanted registrations to be in force from a moment on."""
    by_id = {row.id: row for row in wanted}
    ending = [entry._replace(until=since) for name, entry in in_force.items() if by_id.get(name) != entry.row]
    beginning = [
        TimedRegistration(row, since, None)
        for name, row in by_id.items()
        if name not in in_force or in_force[name].row != row
    ]
    gone = {entry.row.id for entry in ending}
    kept = {name: entry for name, entry in in_force.items() if name not in gone}
    return RegistrationChange(ending, beginning, kept | {entry.row.id: entry for entry in beginning})


def table_of(kind: RegistrationTable, schema: Schema, entries: Iterable[TimedRegistration], state: str) -> Any:
    """Rows of the table of subscriptions, or of advertisements."""
    listed = list(entries)
    pieces = [listed[row : row + _ROWS_IN_PIECE] for row in range(0, len(listed), _ROWS_IN_PIECE)]
    return pa.concat_tables([_piece(kind, schema, piece, state) for piece in pieces or [[]]])


def _piece(kind: RegistrationTable, schema: Schema, listed: Sequence[TimedRegistration], state: str) -> Any:
    columns = {
        "schema": [schema.name] * len(listed),
        "state": [state] * len(listed),
        "day": [f"{each.until:%Y-%m-%d}" if state == OVER else UNSETTLED_DAY for each in listed],
        "since": [each.since for each in listed],
        "until": [each.until for each in listed],
        "boxes": [boxes(schema, each.row.filter) for each in listed],
        **{name: [getattr(each.row, name) for each in listed] for name in RegistrationText._fields},
    }
    kinds = TABLES[kind].schema
    return pa.table({name: pa.array(columns[name], kinds.field(name).type) for name in kinds.names}, schema=kinds)


def boxes(schema: Schema, text: str) -> list[list[dict[str, Any]]]:
    """The boxes of a filter, for programs that know nothing of our JSON: the limited attributes of each."""
    return [
        [
            dict(zip(("attribute", "low", "high"), (attribute.name, *attribute.span(part)), strict=True))
            for attribute, part in zip(schema.attributes, box.ranges, strict=True)
            if part != attribute.domain
        ]
        for box in from_json(schema, json.loads(text)).boxes
    ]


def written(row: RegistrationRow | tuple[str, str, str, Filter | str]) -> RegistrationText:
    name, principal, host, wanted = row
    text = wanted if isinstance(wanted, str) else json.dumps(to_json(wanted), ensure_ascii=False)
    return RegistrationText(name, principal, host, text)

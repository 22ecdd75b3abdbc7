"""What is asked of a lake, by names and texts as the options of a data source have them: a table, and which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from pleroma.errors import LakeError, UnknownName
from pleroma.pipeline.lake.lake import Lake, between
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.lake_tables import TABLES, EventColumns, SharedTable
from pleroma.pipeline.lake.landed import REGISTRATION_TABLES
from pleroma.pipeline.lake.moments import parsed
from pleroma.pipeline.lake.reading import Reading
from pleroma.pipeline.lake.registration_history import conditions_on
from pleroma.pipeline.lake.table_files import Condition, ValueSpan

ROW_KINDS = ("events", *TABLES)
STREAMED_KINDS = ("events", "reports")
SOURCE_OPTIONS = ("path", "schema", "kind", "from", "to", "maxFilesPerTrigger")
_HAPPENED_AT = {"reports": "at", "refused": "at"}
"""The column that says when a row of a table happened, where it is not `since`."""


@dataclass(frozen=True, slots=True)
class LakeQuery:
    """Rows of a kind within `[start, end)`, of one schema or, but for events, of all."""

    path: str
    schema: str | None = None
    kind: str = "events"
    start: datetime | None = None
    end: datetime | None = None
    max_files: int | None = None
    """How many files a stream begins with at once."""

    def __post_init__(self) -> None:
        if self.kind not in ROW_KINDS:
            raise UnknownName("kind", self.kind, ROW_KINDS)
        if self.kind == "events" and not self.schema:
            raise LakeError("the option 'schema' is missing", field="schema")
        if self.schema and self.kind != "events" and "schema" not in TABLES[self._shared].schema.names:
            raise LakeError(f"{self.kind} are of no schema", field="schema", value=self.schema)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LakeQuery:
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in SOURCE_OPTIONS}
        for name in given:
            if name not in known:
                raise UnknownName("option", name, SOURCE_OPTIONS)
        if not given.get("path"):
            raise LakeError("the option 'path' is missing", field="path")
        files = given.get("maxfilespertrigger")
        if files is not None and not (files.isascii() and files.isdecimal() and int(files)):
            raise LakeError("is a count from 1", field="maxFilesPerTrigger", value=files)
        start, end = (parsed(name, given[name]) if name in given else None for name in ("from", "to"))
        kind = given.get("kind", "events")
        return cls(given["path"], given.get("schema"), kind, start, end, None if files is None else int(files))

    def options(self) -> dict[str, str]:
        """The options that say the same."""
        moments = {name: each.isoformat() for name, each in (("from", self.start), ("to", self.end)) if each}
        files = {} if self.max_files is None else {"maxFilesPerTrigger": str(self.max_files)}
        return {"path": self.path, "kind": self.kind, "schema": self.schema or ""} | moments | files

    @property
    def lake(self) -> Lake:
        return _lake(self.path)

    @property
    def table(self) -> LakeTable:
        if self.schema:
            self.lake.schema(self.schema)  # an error with the names that there are
        return self.lake.event_table(self.schema or "") if self.kind == "events" else self.lake.table(self._shared)

    @property
    def landing(self) -> str:
        """The column of the landing's number."""
        return EventColumns.of(self.lake.schema(self.schema or "")).landing if self.kind == "events" else "landing"

    @property
    def columns(self) -> Any:
        """The columns in Arrow's terms."""
        return self.table.definition.schema

    def readings(self, further: Sequence[Condition] = ()) -> list[Reading]:
        """The files that may have such rows, and how each is read."""
        return Reading.by(self.lake, self.table, [(*each, *further) for each in self._conditions()])

    def spans(self, further: Sequence[Condition] = ()) -> list[ValueSpan]:
        """By file with such rows: from which landing to which its rows are."""
        (conditions,) = self._conditions()
        return self.table.spans(self.landing, (*conditions, *further))

    def _conditions(self) -> list[tuple[Condition, ...]]:
        """All rows that satisfy one of these."""
        if self.kind == "events":
            return [between(EventColumns.of(self.lake.schema(self.schema or "")).at, self.start, self.end)]
        if self.kind in REGISTRATION_TABLES:
            return list(conditions_on(self.schema or None, self.start, self.end))
        of_schema = (Condition("schema", "==", self.schema),) if self.schema else ()
        return [(*of_schema, *between(_HAPPENED_AT.get(self.kind, "since"), self.start, self.end))]

    @property
    def _shared(self) -> SharedTable:
        return cast(SharedTable, self.kind)


@lru_cache(maxsize=16)
def _lake(url: str) -> Lake:
    """One for each URL in a process, which does not read the log from its beginning each time."""
    return Lake.at(url)

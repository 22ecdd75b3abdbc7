"""One Delta table of a lake: landing in it exactly once, reading it, and keeping it tidy.

Any number of processes may land in a table at the same time. A commit carries transactions: the number that each
sender's batches have come to, and the number of the landing. Of two commits with the same transaction that were made at
once the library refuses one, and that one looks again at what the table has by now. So a batch is landed once whoever
brings it, and landings have consecutive numbers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow.fs import FileType

from pleroma.errors import DamagedFile, LakeError
from pleroma.pipeline.lake.lake_tables import TableDefinition
from pleroma.pipeline.lake.store import file_system, first_link, is_local, reason_of, storage_options
from pleroma.pipeline.lake.table_files import Condition, FileReader, TableFile, ValueSpan, files_in, spans_in, sql

KEPT_HOURS = 12
"""How long files that were merged, and entries of the log, stay: whoever reads an older version is done by then."""
SENDER_DAYS = 1
"""How long a table remembers how far a sender's batches have come. Who opens it reads of all it remembers."""
LANDING = "landing"
"""The transaction that every landing carries, with its number."""
_TIDYING = "tidying"
"""The transaction of those who replace files by others: of two at once only one succeeds."""
_CONFIGURATION = {
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.setTransactionRetentionDuration": f"interval {SENDER_DAYS} day",
    "delta.checkpointInterval": "100",
}
_TRIES = 20
_PAUSE_SECONDS = 0.05
"""At most so long, times the number of the try, before another try."""
_FAILURES = (DeltaError, OSError, ValueError, RuntimeError, pa.ArrowException)
_PANIC = "PanicException"
"""What the library raises where it is wrong about itself; it cannot be imported, and is no Exception."""
WRITER = WriterProperties(compression="ZSTD", max_row_group_size=262_144)


class Landing(NamedTuple):
    """Rows to append, with the transactions that they carry, each with its number."""

    rows: Any
    transactions: Mapping[str, int]
    """Are remembered for ever."""
    batches: Mapping[str, int] = MappingProxyType({})
    """Of senders that come and go; are remembered for `SENDER_DAYS`."""


class TableState:
    """What a table has at one version, for those who decide what to land."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    def landed(self, sender: str) -> int:
        """The number that a sender's batches have come to; -1 if the table has none of it."""
        found = self._table.transaction_version(sender)
        return -1 if found is None else found

    @property
    def next_landing(self) -> int:
        return max(self.landed(LANDING), 0) + 1


class LakeTable:
    """Safe to use from several threads."""

    def __init__(self, lake_url: str, definition: TableDefinition) -> None:
        self.url = f"{lake_url}/{definition.path}"
        self.definition = definition
        self._lock = RLock()
        self._table: DeltaTable | None = None
        self._was_there = False
        self._deciding = False
        """While somebody decides what to land, the table stays at the version that the decision is made on."""

    @property
    def exists(self) -> bool:
        with self._lock:
            return self._newest() is not None

    @property
    def version(self) -> int:
        """The newest version; -1 if there is no table yet."""
        with self._lock:
            table = self._newest()
            return -1 if table is None else table.version()

    def create(self) -> None:
        """Make the table if there is none, and give it the columns that it lacks."""
        with self._lock:
            self._made()

    def land(self, decide: Callable[[TableState], Landing | None]) -> int:
        """Append what is decided on the newest version, again and again until nobody interferes: how many rows."""
        for number in range(1, _TRIES + 1):
            with self._lock:
                table = self._made()
                self._deciding = True
                try:
                    with self._naming("cannot be read"):
                        landing = decide(TableState(table))
                finally:
                    self._deciding = False
                if landing is None or not len(landing.rows):
                    return 0
                try:
                    self._append(table, landing)
                    return len(landing.rows)
                except CommitFailedError as error:
                    self._table, failure = None, error
            _pause(number)
        raise self._failed("cannot be written", failure)

    def rewrite(self, conditions: Sequence[Condition], change: Callable[[Any], Any | None]) -> int:
        """Have other rows, which satisfy these conditions too, in place of all that do; how many files went.

        `change` is given the rows, with all columns that the table ever had, and gives others, or None to leave them.
        It is asked again if somebody landed such rows meanwhile, or also replaced rows: of two who do that at once the
        library refuses one. (Its own compaction lets both through, and all rows would be there twice.)
        """

        def commit(table: DeltaTable, properties: CommitProperties) -> int:
            actions = pa.table(table.get_add_actions(flatten=True))
            files = list(files_in(actions, self.definition.partitioned_by, conditions))
            schema = pa.schema(table.schema().to_arrow())
            reader = FileReader(self.url, self.definition.path, schema, tuple(conditions))
            system, root = file_system(self.url, {each.path: each.size for each in files})
            found = [reader.rows(system, root, file) for file in files]
            rows = change(pa.concat_tables(found)) if found else None
            if rows is None:
                return 0
            how: dict[str, Any] = {"mode": "overwrite", "predicate": sql(conditions), "writer_properties": WRITER}
            write_deltalake(table, rows, schema_mode="merge", commit_properties=properties, **how)
            return len(files)

        return self._tidied("cannot be merged", commit)

    def landed(self, sender: str) -> int:
        """The number that a sender's batches have come to; -1 if the table has none of it."""
        with self._lock:
            table = self._newest()
            return -1 if table is None else TableState(table).landed(sender)

    def files(self, conditions: Sequence[Condition] = ()) -> list[TableFile]:
        """The files of the newest version that may have rows with these properties."""
        (found,) = self.files_by((conditions,))
        return found

    def files_by(self, alternatives: Sequence[Sequence[Condition]]) -> list[list[TableFile]]:
        """The same for each of several sets of conditions, all of one version: what moves between them is in one."""
        actions, keys = self._actions(), self.definition.partitioned_by
        return [[] if actions is None else list(files_in(actions, keys, each)) for each in alternatives]

    def spans(self, column: str, conditions: Sequence[Condition] = ()) -> list[ValueSpan]:
        """By file that may have rows with these properties: between which values a column lies. No file is opened."""
        actions = self._actions()
        return [] if actions is None else list(spans_in(actions, column, conditions))

    def files_and_spans(self, column: str) -> list[tuple[TableFile, ValueSpan]]:
        """All files of the newest version, each with the values that a column lies between."""
        actions = self._actions()
        if actions is None:
            return []
        return list(
            zip(files_in(actions, self.definition.partitioned_by, ()), spans_in(actions, column, ()), strict=True)
        )

    def _actions(self) -> Any:
        """The files of the newest version, as the log has them; None if there is no table."""
        with self._lock:
            table = self._newest()
            return None if table is None else pa.table(table.get_add_actions(flatten=True))

    def reader(self, conditions: Sequence[Condition] = ()) -> FileReader:
        return FileReader(self.url, self.definition.path, self.definition.schema, tuple(conditions))

    def rows(
        self,
        conditions: Sequence[Condition] = (),
        names: Sequence[str] | None = None,
        on_damage: Callable[[str, LakeError], None] | None = None,
    ) -> Any:
        """The rows with these properties, in no order, all columns or some.

        `on_damage` is called with a damaged file, which is then left out; without it a damaged file is an error.
        """
        (found,) = self.rows_by((conditions,), names, on_damage)
        return found

    def rows_by(
        self,
        alternatives: Sequence[Sequence[Condition]],
        names: Sequence[str] | None = None,
        on_damage: Callable[[str, LakeError], None] | None = None,
    ) -> Iterator[Any]:
        """The same for each of several sets of conditions, all of one version."""
        chosen = list(self.definition.schema.names if names is None else names)
        for conditions, files in zip(alternatives, self.files_by(alternatives), strict=True):
            yield self._rows_of(self.reader(conditions), files, chosen, on_damage)

    def _rows_of(
        self,
        reader: FileReader,
        files: Sequence[TableFile],
        chosen: Sequence[str],
        on_damage: Callable[[str, LakeError], None] | None,
    ) -> Any:
        found = [pa.schema([self.definition.schema.field(name) for name in chosen]).empty_table()]
        if not files:
            return found[0]
        system, root = file_system(self.url, {each.path: each.size for each in files})
        for file in files:
            try:
                found.append(reader.rows(system, root, file, chosen))
            except DamagedFile as error:
                if on_damage is None:
                    raise
                on_damage(file.path, error)
        return pa.concat_tables(found)

    def delete(self, conditions: Sequence[Condition]) -> int:
        """Remove the rows that satisfy these conditions; how many."""

        def commit(table: DeltaTable, properties: CommitProperties) -> int:
            return int(table.delete(sql(conditions), commit_properties=properties)["num_deleted_rows"] or 0)

        return self._tidied("cannot be thinned out", commit)

    def _tidied(self, what: str, commit: Callable[[DeltaTable, CommitProperties], int]) -> int:
        """Do something that replaces files, on a version of its own, again and again until nobody interferes."""
        if not self.exists:
            return 0
        for number in range(1, _TRIES + 1):
            with self._naming(what):
                table = self._opened()
                turn = Transaction(_TIDYING, TableState(table).landed(_TIDYING) + 1)
                try:
                    return commit(table, CommitProperties(app_transactions=[turn]))
                except CommitFailedError as error:
                    failure = error
            _pause(number)
        raise self._failed(what, failure)

    def vacuum(self, hours: float = KEPT_HOURS) -> int:
        """Remove files that no version of the last hours has, and entries of the log that are as old; how many files.

        A file that no version has at all, which somebody may be about to land, stays as long. The library would follow
        symbolic links and remove files that are elsewhere, so while there is one nothing is removed.
        """
        if not self.exists:
            return 0
        link = first_link(self.url) if is_local(self.url) else None
        if link is not None:
            reason = f"{link} is a symbolic link: nothing is removed while it is there"
            raise LakeError(reason, field=f"the table {self.definition.path}", value=link)
        with self._naming("cannot be vacuumed"):
            table = self._opened()
            gone = table.vacuum(retention_hours=int(hours), dry_run=False, enforce_retention_duration=False, full=True)
            system, root = file_system(self.url)
            checkpoint = f"{root}_delta_log/{table.version():020d}.checkpoint.parquet"
            if system.get_file_info(checkpoint).type == FileType.NotFound:
                table.create_checkpoint()
            table.cleanup_metadata()
            return len(gone)

    def _newest(self) -> DeltaTable | None:
        """The table at its newest version; None if there is none.

        A table that was there and is not now, as when a disk is not mounted, is an error: it would be begun anew.
        """
        if self._deciding:
            return self._table
        with self._naming("cannot be opened"):
            if self._table is None or (is_local(self.url) and not Path(self.url, "_delta_log").is_dir()):
                try:
                    self._table = self._opened()
                    self._was_there = True
                except TableNotFoundError:
                    self._table = None
                    if self._was_there:
                        raise LakeError("is gone", field=f"the table {self.definition.path}") from None
                    return None
            else:
                self._table.update_incremental()
        return self._table

    def _opened(self) -> DeltaTable:
        return DeltaTable(self.url, storage_options=storage_options(self.url))

    def _made(self) -> DeltaTable:
        table = self._newest()
        if table is None:
            made = self.definition
            with self._naming("cannot be made"):
                if is_local(self.url):
                    self._make_folder(Path(self.url))
                with suppress(CommitFailedError):  # another process made it at the same moment
                    DeltaTable.create(
                        self.url,
                        made.schema,
                        mode="ignore",
                        partition_by=list(made.partitioned_by) or None,
                        description=made.meaning,
                        configuration=_CONFIGURATION,
                        storage_options=storage_options(self.url),
                    )
                self._table = table = self._opened()
                self._was_there = True
        return table

    def _make_folder(self, folder: Path) -> None:
        """Make a folder for the table. Other files in it would be removed some day as those that no version has."""
        folder.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in folder.iterdir()}
        if there and "_delta_log" not in there:
            reason = "has files of something else; `pleroma pipeline migrate` makes a new lake of an older one"
            raise LakeError(reason, field=str(folder), value=min(there))

    def _append(self, table: DeltaTable, landing: Landing) -> None:
        now = int(time.time() * 1000)
        transactions = [
            *(Transaction(key, number) for key, number in landing.transactions.items()),
            *(Transaction(key, number, now) for key, number in landing.batches.items()),
        ]
        how: dict[str, Any] = {"mode": "append", "writer_properties": WRITER}
        with self._naming("cannot be written"):
            write_deltalake(
                table,
                self._fitting(landing.rows),
                schema_mode="merge",
                commit_properties=CommitProperties(app_transactions=transactions),
                **how,
            )

    def _fitting(self, rows: Any) -> Any:
        """The rows with exactly the columns of the definition, in its order."""
        schema = self.definition.schema
        return pa.table([rows[name].cast(schema.field(name).type) for name in schema.names], schema=schema)

    def _naming(self, what: str) -> _NamedFailure:
        return _NamedFailure(self, what)

    def _failed(self, what: str, error: BaseException) -> LakeError:
        return LakeError(f"{what}: {reason_of(error)}", field=f"the table {self.definition.path}")


class _NamedFailure:
    """Turns errors of the library within a `with` into a LakeError that names the table."""

    def __init__(self, table: LakeTable, what: str) -> None:
        self._table, self._what = table, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, CommitFailedError):
            return
        if error is not None and (isinstance(error, _FAILURES) or type(error).__name__ == _PANIC):
            with self._table._lock:  # whoever decides what to land needs the table until then
                self._table._table = None
            raise self._table._failed(self._what, error) from None


def _pause(number: int) -> None:
    """Before another try, the longer the more there were."""
    time.sleep(random.random() * _PAUSE_SECONDS * number)  # noqa: S311  # no secret

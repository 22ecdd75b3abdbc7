"""How the files of a table become rows by tasks: which task reads which files, and what rows these give.

The Delta log is read once, where a query is planned. Tasks get the names of files and depend on nothing else; they may
run in another process on another machine. A damaged file gives no rows, and the lake's table `refused` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pleroma.errors import DamagedFile
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.store import file_system
from pleroma.pipeline.lake.table_files import Condition, FileReader, TableFile

BATCH_ROWS = 65_536
"""Rows of one record batch at most."""

_MIN_TASK_BYTES, _MAX_TASK_BYTES, _ENOUGH_TASKS = 1 << 20, 16 << 20, 8
"""A task reads about so many bytes at least and at most; within these limits there are about so many tasks."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Files of a table and the conditions on their rows: all of a query, or the part of one task."""

    lake: str
    """The URL of the lake."""
    reader: FileReader
    files: tuple[TableFile, ...]

    @classmethod
    def of(cls, lake: Lake, table: LakeTable, conditions: Sequence[Condition] = ()) -> Reading:
        (reading,) = cls.by(lake, table, (conditions,))
        return reading

    @classmethod
    def by(cls, lake: Lake, table: LakeTable, alternatives: Sequence[Sequence[Condition]]) -> list[Reading]:
        """One for each of several sets of conditions, all of one version of the table."""
        found = zip(alternatives, table.files_by(alternatives), strict=True)
        return [cls(lake.url, table.reader(conditions), tuple(files)) for conditions, files in found]

    def batches(self, names: Iterable[str] | None = None) -> Iterator[Any]:
        """The rows as record batches, of all columns or of these."""
        chosen = list(self.reader.schema.names if names is None else names)
        system, root = file_system(self.reader.url, {file.path: file.size for file in self.files})
        for file in self.files:
            try:
                rows = self.reader.rows(system, root, file, chosen)
            except DamagedFile as error:
                Lake.at(self.lake).refuse(self.reader.table, file.path, error)
            else:
                yield from rows.to_batches(max_chunksize=BATCH_ROWS)

    def portions(self) -> list[Reading]:
        """The same files by task, in order: neither too many tasks nor too much for one."""
        total = sum(file.size for file in self.files)
        enough = min(max(total // _ENOUGH_TASKS, _MIN_TASK_BYTES), _MAX_TASK_BYTES)
        made: list[list[TableFile]] = []
        held = enough
        for file in self.files:
            if held >= enough:
                made.append([])
                held = 0
            made[-1].append(file)
            held += file.size
        return [Reading(self.lake, self.reader, tuple(files)) for files in made]

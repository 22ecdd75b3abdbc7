"""How far a log goes, after a look through all that a controller would start from."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pleroma.control.log.head_file import HeadMark
from pleroma.control.log.log_tables import last_entry
from pleroma.control.log.read_only_file import ReadOnlyFile
from pleroma.control.log.sqlite_log import SqliteLog
from pleroma.errors import LogDamaged


def intact_end(path: Path) -> HeadMark:
    """The last entry of a log. Raises an error unless the database, a snapshot and all entries after it are intact."""
    with closing(ReadOnlyFile(path)) as file, file.reading() as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise LogDamaged(f"the database is damaged: {' '.join(found.split())}", field=str(path))
        position, chain = last_entry(connection)
    with SqliteLog(ReadOnlyFile(path)) as log:
        for _ in log.read(log.latest_snapshot().position):
            pass
    return HeadMark(position=position, chain=chain)

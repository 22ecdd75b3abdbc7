"""Whether a log still holds all that was acknowledged, found out before anything is written to it.

To close a database is to write to it: SQLite moves what it could read of the write-ahead log into the database and
removes the rest. So the log is looked at through a connection that can only read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pleroma.control.log.head_file import HeadMark, read_mark
from pleroma.control.log.log_tables import format_of, has_chain
from pleroma.control.log.wal_scan import WalScan, scan_wal


@dataclass(frozen=True, slots=True)
class Examination:
    """`faults` are sentences; without any, the log is what was acknowledged, as far as can be told."""

    mark: HeadMark | None
    wal: WalScan
    faults: tuple[str, ...] = ()


def wal_path(path: Path) -> Path:
    return Path(f"{path}-wal")


def head_path(path: Path) -> Path:
    return Path(f"{path}.head")


def read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)


def examine(path: Path) -> Examination:
    """Compare the log at a path with its head file, and look through its write-ahead log."""
    mark = read_mark(head_path(path))  # first: the log of a running controller can only be further than this
    wal = scan_wal(wal_path(path))
    faults = []
    if wal.is_damaged:
        faults.append(f"the write-ahead log is damaged behind frame {wal.frames}")
    elif mark is not None and wal.salts == mark.wal_salts and wal.frames < mark.wal_frames:
        faults.append(f"the write-ahead log ends after {wal.frames} of {mark.wal_frames} frames")
    if mark is not None:
        is_odd = bool(faults) or wal.is_torn or (mark.wal_frames > 0 and wal.salts != mark.wal_salts)
        try:
            with closing(read_only(path)) as connection:
                faults += _compared(connection, path, mark, is_odd=is_odd)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            faults.append(f"the database is damaged: {error}")
    return Examination(mark, wal, tuple(faults))


def _compared(connection: sqlite3.Connection, path: Path, mark: HeadMark, *, is_odd: bool) -> list[str]:
    """How the entries differ from the mark. Where something is odd, the structure of the database is looked at too."""
    if format_of(connection, path) == 0:
        return [_missing(0, mark.position)] if mark.position else []
    faults = []
    if is_odd and (found := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        faults.append(f"the database is damaged: {' '.join(found.split())}")
    last = connection.execute("SELECT max(position) FROM entries").fetchone()[0] or 0
    if last < mark.position:
        faults.append(_missing(last, mark.position))
    elif has_chain(connection):
        chain = connection.execute("SELECT chain FROM entries WHERE position = ?", (mark.position,)).fetchone()
        if chain is not None and (chain[0] or bytes(len(mark.chain))) != mark.chain:
            faults.append(f"entry {mark.position} is not the one that was acknowledged: this is another log")
    return faults


def _missing(last: int, acknowledged: int) -> str:
    count = acknowledged - last
    are = "1 acknowledged entry is" if count == 1 else f"{count} acknowledged entries are"
    return f"{are} missing: the log ends at {last}, and {acknowledged} were acknowledged"

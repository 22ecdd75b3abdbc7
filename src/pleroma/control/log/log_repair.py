"""Going on with what is left of a damaged log: an act of somebody who knows of the loss, never done by itself.

The damaged files are copied into a folder beside them first. What is left is tried in two ways: the database with the
frames of the write-ahead log that SQLite can use, and the database alone, which holds more if those had been moved into
it already. Of the ways that give an intact log, the one that goes further is put in place.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pleroma.control.log.durable_log import Position
from pleroma.control.log.head_file import HeadFile, HeadMark
from pleroma.control.log.lock_file import LockFile
from pleroma.control.log.log_end import intact_end
from pleroma.control.log.log_examination import examine, head_path, wal_path
from pleroma.control.log.private_files import PRIVATE_FOLDER_MODE
from pleroma.control.log.sqlite_file import clear_errors, sync_folder
from pleroma.errors import LogDamaged, LogError

_NOTHING = HeadMark(position=-1)


@dataclass(frozen=True, slots=True)
class Repair:
    """The log ends at `position` now. What it was made of is in the folder `aside`."""

    position: Position
    acknowledged: int
    aside: Path

    @property
    def lost(self) -> int:
        return max(0, self.acknowledged - self.position)


def repair(path: Path) -> Repair:
    """Put the best that is left of a damaged log in its place. A log that is not damaged is refused."""
    with clear_errors(path):
        lock = LockFile(Path(f"{path}.lock"), path)
        try:
            found = examine(path)
            if not found.faults:
                raise LogError("this log has lost nothing: there is nothing to repair", field=str(path))
            return _repaired(path, found.mark or HeadMark())
        finally:
            lock.release()


def _repaired(path: Path, mark: HeadMark) -> Repair:
    aside = path.parent / time.strftime("damaged-%Y%m%dT%H%M%SZ", time.gmtime())
    aside.mkdir(mode=PRIVATE_FOLDER_MODE)
    for each in (path, wal_path(path), head_path(path)):
        if each.exists():
            _copy(each, aside / each.name)
    sync_folder(aside)
    with_frames, alone = aside / "with-frames.sqlite", aside / "alone.sqlite"
    _copy(path, with_frames)
    _copy(path, alone)
    if wal_path(path).exists():
        _copy(wal_path(path), wal_path(with_frames))
    ends = {each: _intact_end(each) for each in (with_frames, alone)}
    best = max(ends, key=lambda each: ends[each].position)
    end = ends[best]
    if end is not _NOTHING:
        # the write-ahead log goes first: it must never lie beside a database that it does not belong to
        for leftover in (wal_path(path), Path(f"{path}-shm")):
            leftover.unlink(missing_ok=True)
        best.replace(path)
        with closing(HeadFile(head_path(path), reopen=False)) as head:
            head.claim(end)
        sync_folder(path.parent)
    for trial in (*aside.glob("with-frames.sqlite*"), *aside.glob("alone.sqlite*")):
        trial.unlink()
    if end is _NOTHING:
        reason = f"nothing intact is left: go on from a backup. Nothing was changed; {aside} has a copy"
        raise LogDamaged(reason, field=str(path))
    return Repair(Position(end.position), mark.position, aside)


def _intact_end(path: Path) -> HeadMark:
    """How far a log goes if a controller can start from it, or else `_NOTHING`. Its write-ahead log is emptied."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return intact_end(path)
    except (sqlite3.DatabaseError, LogError):
        return _NOTHING


def _copy(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with source.open("rb") as read, os.fdopen(descriptor, "wb") as written:
        shutil.copyfileobj(read, written)
        written.flush()
        os.fsync(written.fileno())

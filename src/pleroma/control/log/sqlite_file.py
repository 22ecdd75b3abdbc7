"""The file under the log: one locked SQLite database, written in durable transactions.

A transaction is on the disk when `writing` is left (SQLite's write-ahead log, synced at every commit), or else it has
not happened and one error tells why. Every use holds the same lock, so any thread may use the file.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pleroma.control.log.lock_file import LockFile
from pleroma.errors import DiskFull, ForeignLog, LogDamaged, LogError

SQLITE_APPLICATION_ID = 0x506C726D  # "Plrm", where SQLite and `file` look for it
LOG_FORMAT = 2
_EARLIER_FORMATS = (1,)
"""Formats that can be brought to the present one. Format 1 has, of tokens, the clients' keys."""

_TABLES = (
    "CREATE TABLE entries (position INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE keys (position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, digest BLOB NOT NULL)",
    "CREATE TABLE snapshots (position INTEGER PRIMARY KEY, digest BLOB NOT NULL, state BLOB NOT NULL)",
)
_LARGEST_IDLE_WAL = 16 * 2**20
_FULL = "the disk is full; nothing was written"


class LogFile:
    """Open from here to `close`, and to nobody else meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))  # one lock, whichever way leads to the file
        self.format = LOG_FORMAT
        self._busy = threading.RLock()
        self._lock: LockFile | None = None
        self._connection: sqlite3.Connection | None = None
        try:
            with self._clear_errors():
                missing = [folder for folder in self.path.parents if not folder.exists()]
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = LockFile(Path(f"{self.path}.lock"), self.path)
                self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
                self._prepare(self._connection)
                for folder in missing:  # a file lasts no longer than the names that lead to it
                    _sync(folder.parent)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._busy:
            connection, self._connection = self._connection, None
            try:
                if connection is not None:
                    with self._clear_errors():
                        connection.close()
            finally:
                if self._lock is not None:
                    self._lock.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._busy, self._clear_errors():
            if self._connection is None:
                raise LogError("the log is closed", field=str(self.path))
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: durable when this ends, undone when it fails."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:  # after some errors SQLite has rolled back itself
                    connection.execute("ROLLBACK")
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                    self._make_room(connection)
                raise

    def leave_no_trace(self) -> None:
        """Write the file anew without anything that was dropped or exchanged, and note that its format is the present.

        SQLite only marks what is dropped as free, and it stays readable there.
        """
        with self.reading() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute(f"PRAGMA user_version = {LOG_FORMAT}")
            self.format = LOG_FORMAT

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Empty the write-ahead log into the database, if that works: the next transaction may then fit."""
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        new = self._is_new(connection)
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise LogError("the file system cannot hold a write-ahead log", field=str(self.path))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = OFF")  # to overwrite what is dropped would make compaction expensive
        connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_IDLE_WAL}")
        if new:
            with self.writing():
                for table in _TABLES:
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {LOG_FORMAT}")
            _sync(self.path.parent)

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        """Whether this is still an empty file. One that is not ours is refused, and left as it is."""
        try:
            application, version, tables = (
                connection.execute(question).fetchone()[0]
                for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
            )
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise ForeignLog("this file is not a log", field=str(self.path)) from None
        if (application, version, tables) == (0, 0, 0):
            return True
        if application != SQLITE_APPLICATION_ID:
            reason = "this database belongs to another application"
            raise ForeignLog(reason, field=str(self.path), value=application)
        self.format = version
        if version != LOG_FORMAT and version not in _EARLIER_FORMATS:
            reason = f"the log has format {version}, and this program reads format {LOG_FORMAT}"
            raise ForeignLog(reason, field=str(self.path), value=version)
        return False

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        path = str(self.path)
        try:
            yield
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise DiskFull(_FULL, field=path, value=error.errno) from error
            raise LogError(f"the log cannot be used: {error.strerror}", field=path, value=error.errno) from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            # the index of the write-ahead log is a file too, and not to be able to extend it has a code of its own
            if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
                raise DiskFull(_FULL, field=path, value=code) from error
            if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise LogDamaged(f"the file is damaged: {error}", field=path, value=code) from error
            raise LogError(f"the log cannot be used: {error}", field=path, value=code) from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

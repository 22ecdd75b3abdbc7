"""The file under the log: one locked SQLite database, written in durable transactions.

A transaction is on the disk when `writing` is left (SQLite's write-ahead log, synced at every commit), or else it has
not happened and one error tells why. Every use holds the same lock, so any thread may use the file. How far the log has
come is noted in a second file after each transaction; a log that has lost something since is not opened.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import structlog

from pleroma.control.log.head_file import HeadFile, HeadMark, read_mark
from pleroma.control.log.lock_file import LockFile
from pleroma.control.log.log_examination import examine, head_path, read_only
from pleroma.control.log.log_tables import LOG_FORMAT, add_chain, format_of, has_chain, last_entry, make_tables
from pleroma.control.log.mount_kind import is_shared, mount_kind
from pleroma.control.log.private_files import PRIVATE_FOLDER_MODE, open_private
from pleroma.errors import DiskFull, LogDamaged, LogError, LogLocked

_LARGEST_IDLE_WAL = 16 * 2**20
_BUSY_MILLISECONDS = 5000
_FULL = "the disk is full; nothing was written"
_WAL_INDEX = struct.Struct("=16xI12x8s")
"""The beginning of the index of the write-ahead log: frames up to the last commit, and the salts."""

log = structlog.get_logger("pleroma.control")


class LogFile:
    """Open from here to `close`, and to nobody else meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path.parent)) / path.name  # one lock, whichever way leads to the file
        self.format = LOG_FORMAT
        self._busy = threading.RLock()
        self._lock: LockFile | None = None
        self._head: HeadFile | None = None
        self._wal_index = -1
        self._connection: sqlite3.Connection | None = None
        try:
            with clear_errors(self.path):
                missing = [folder for folder in self.path.parents if not folder.exists()]
                self.path.parent.mkdir(mode=PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
                self._lock = LockFile(Path(f"{self.path}.lock"), self.path)
                os.close(open_private(self.path))  # SQLite gives its other files the same mode
                self._examine()
                self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
                self._prepare(self._connection)
                self._claim(self._connection)
                for folder in missing:  # a file lasts no longer than the names that lead to it
                    sync_folder(folder.parent)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._busy:
            connection, self._connection = self._connection, None
            try:
                if connection is not None:
                    with clear_errors(self.path):
                        self._close(connection)
            finally:
                if self._wal_index >= 0:  # after the connection: to close it before would drop SQLite's locks
                    os.close(self._wal_index)
                    self._wal_index = -1
                if self._head is not None:
                    self._head.close()
                if self._lock is not None:
                    self._lock.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._busy, clear_errors(self.path):
            if self._connection is None:
                raise LogError("the log is closed", field=str(self.path))
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: durable when this ends, undone when it fails."""
        with self.reading() as connection:
            if self._head is not None:
                self._head.check()
            with self._transaction(connection):
                yield connection
            self._note(connection)

    def checkpoint(self) -> None:
        """Move everything into the database and empty the write-ahead log, unless somebody else reads it just now."""
        with self.reading() as connection:
            if self._head is not None:
                self._head.check()
            connection.execute("PRAGMA busy_timeout = 0")  # appends wait for us: do not wait for others
            try:
                self._empty_wal(connection)
            finally:
                connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            self._note(connection)

    def leave_no_trace(self) -> None:
        """Write the file anew without anything that was dropped or exchanged, and note that its format is the present.

        SQLite only marks what is dropped as free, and it stays readable there.
        """
        with self.reading() as connection:
            if self._head is not None:
                self._head.check()
            connection.execute("VACUUM")
            self._empty_wal(connection)
            connection.execute(f"PRAGMA user_version = {LOG_FORMAT}")
            self.format = LOG_FORMAT
            self._note(connection)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:  # after some errors SQLite has rolled back itself
                connection.execute("ROLLBACK")
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                with suppress(sqlite3.Error):  # the next transaction may then fit
                    self._empty_wal(connection)
            raise

    def _empty_wal(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _note(self, connection: sqlite3.Connection) -> None:
        """Write down what is durable by now. It is durable all the same if that fails, so nobody is told."""
        if self._head is not None:
            with suppress(OSError, sqlite3.Error, struct.error):
                position, chain = last_entry(connection)
                frames, salts = _WAL_INDEX.unpack(os.pread(self._wal_index, _WAL_INDEX.size, 0))
                self._head.note(position, chain, salts, frames)

    def _close(self, connection: sqlite3.Connection) -> None:
        if self._head is None:
            connection.close()
            return
        try:
            self._head.check()
        except LogLocked:
            # the write-ahead log is another's, and to close the last connection would empty and remove it
            with closing(read_only(self.path)) as other:
                last_entry(other)
                connection.close()
            return
        last: tuple[int, bytes] | None = None
        with suppress(sqlite3.Error):
            last = last_entry(connection)
        connection.close()
        if last is not None:
            self._head.note(*last, bytes(8), 0)

    def _examine(self) -> None:
        found = examine(self.path)
        if found.faults:
            folder = self.path.parent
            reason = f"{'; '.join(found.faults)}. Nothing was changed; `pleroma check {folder}` tells what can be done"
            raise LogDamaged(reason, field=str(self.path), value=found.mark)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = format_of(connection, self.path)
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise LogError("the file system cannot hold a write-ahead log", field=str(self.path))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = OFF")  # to overwrite what is dropped would make compaction expensive
        connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_IDLE_WAL}")
        self.format = version or LOG_FORMAT
        if version == 0 or not has_chain(connection):
            with self._transaction(connection):
                make_tables(connection) if version == 0 else add_chain(connection)
            sync_folder(self.path.parent)

    def _claim(self, connection: sqlite3.Connection) -> None:
        """Be the one process that writes, also for those who do not see our lock."""
        kind = mount_kind(self.path.parent)
        if is_shared(kind):
            log.warning("the log is on a network file system: start no controller on another machine", kind=kind)
        position, chain = last_entry(connection)
        if position and read_mark(head_path(self.path)) is None and self.format > 1:
            log.warning("there is no head file: whether the log has lost its end cannot be told", position=position)
        self._wal_index = os.open(f"{self.path}-shm", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with ExitStack() as failing:
            head = failing.enter_context(closing(HeadFile(head_path(self.path), reopen=is_shared(kind))))
            head.claim(HeadMark(position=position, chain=chain))
            failing.pop_all()
        self._head = head
        self._note(connection)
        sync_folder(self.path.parent)


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn what the disk and SQLite raise into errors of ours that name the file."""
    field = str(path)
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(_FULL, field=field, value=error.errno) from error
        raise LogError(f"the log cannot be used: {error.strerror}", field=field, value=error.errno) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        # the index of the write-ahead log is a file too, and not to be able to extend it has a code of its own
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
            raise DiskFull(_FULL, field=field, value=code) from error
        if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise LogDamaged(f"the file is damaged: {error}", field=field, value=code) from error
        raise LogError(f"the log cannot be used: {error}", field=field, value=code) from error


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

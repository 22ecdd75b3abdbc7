"""The log of one process, in a database file.

An entry survives a crash once `append` has returned. The state is a fold over `read`; with a snapshot, a restart need
not read from the beginning. The log keeps the last two snapshots that were intact when the newer one was saved, and all
entries after the older of the two. Compaction frees space for later entries; it does not make the file smaller.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Protocol, Self

from pleroma.control.log.durable_log import LOG_START, LogSnapshot, Position, Recovery, check_body
from pleroma.control.log.head_file import CHAIN_BYTES
from pleroma.control.log.log_tables import LOG_FORMAT, drop_keys, key_digests, last_entry
from pleroma.control.log.sqlite_file import LogFile
from pleroma.errors import EntriesDropped, LogDamaged, LogError

_MAX_READ_ROWS = 512
_MAX_READ_BYTES = 2**20


class LogStorage(Protocol):
    """A database with the tables of a log: `LogFile`, or `ReadOnlyFile` for looking only."""

    path: Path
    format: int

    def leave_no_trace(self) -> None: ...

    def reading(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def writing(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def checkpoint(self) -> None: ...

    def close(self) -> None: ...


class SqliteLog:
    """Use `SqliteLog.open`. Any thread may call its methods; one call at a time is carried out."""

    is_shared = False

    def __init__(self, file: LogStorage) -> None:
        self._file = file

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the log, or begin one. Nobody else can open it until it is closed or this process ends."""
        return cls(LogFile(Path(path)))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first(self) -> Position:
        """The position of the first entry that is kept."""
        with self._file.reading() as connection:
            return _first(connection) or LOG_START

    @property
    def head(self) -> Position:
        """The position of the last entry."""
        with self._file.reading() as connection:
            return _head(connection)

    @property
    def is_of_earlier_format(self) -> bool:
        return self._file.format != LOG_FORMAT

    def rewrite(
        self, marker: bytes, body: Callable[[bytes], bytes], state: Callable[[bytes, Mapping[int, bytes]], bytes]
    ) -> None:
        """Bring a log of an earlier format to the present one: exchange snapshots, and bodies with the marker.

        `state` gets a snapshot, and the digests of the entries with keys, which logs had a table of. Nothing of what
        they were is left in the file. What is damaged stays, so that it is noticed.
        """
        with self._file.writing() as connection:
            digests = key_digests(connection)
            question = "SELECT position FROM entries WHERE instr(body, ?)"
            marked = connection.execute(question, (marker,)).fetchall() if self._file.format == 1 else ()
            for (position,) in marked:
                question = "SELECT checksum, body FROM entries WHERE position = ?"
                checksum, old = connection.execute(question, (position,)).fetchone()
                if checksum == _checksum(position, old):
                    new = body(old)
                    exchanged = (_checksum(position, new), new, position)
                    connection.execute("UPDATE entries SET checksum = ?, body = ? WHERE position = ?", exchanged)
            for position in _snapshots(connection):
                kept = _load(connection, position)
                if kept is not None:
                    new = state(kept, digests)
                    row = (_digest(position, new), new, position)
                    connection.execute("UPDATE snapshots SET digest = ?, state = ? WHERE position = ?", row)
            drop_keys(connection)
        self._file.leave_no_trace()

    def append(self, bodies: Sequence[bytes]) -> Position:
        """Append entries one behind the other, durably, all or none; returns the position of the first.

        After DiskFull no entry is in the log. After any other error of the disk, entries may still turn out to be in
        the log if the machine stops before the next append succeeds.
        """
        for body in bodies:
            check_body(body)
        with self._file.writing() as connection:
            last, chain = last_entry(connection)
            rows = []
            for position, body in enumerate(bodies, last + 1):
                chain = _chained(chain, position, body)
                rows.append((position, _checksum(position, body), body, chain))
            connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", rows)
        return Position(last + 1)

    def take_over(self, snapshot: LogSnapshot | None, entries: Iterable[tuple[Position, bytes]]) -> None:
        """Be the continuation of another log, all at once: this one is empty so far."""
        with self._file.writing() as connection:
            last, chain = last_entry(connection)
            if last != LOG_START:
                raise LogError(f"it has {last} entries already", field=str(self._file.path), value=last)
            for position, body in entries:
                chain = _chained(chain, position, body)
                row = (position, _checksum(position, body), body, chain)
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
            if snapshot is not None:
                at, state = snapshot.position, snapshot.state
                connection.execute("INSERT INTO snapshots VALUES (?, ?, ?)", (at, _digest(at, state), state))

    def read(self, after: int = LOG_START) -> Iterator[tuple[Position, bytes]]:
        """The entries after a position, in order. Few at a time are in memory, and others may append meanwhile."""
        with self._file.reading() as connection:
            head, first = _head(connection), _first(connection)
        if not LOG_START <= after <= head:
            raise LogError(f"the log ends at {head}", field="after", value=after)
        if first is not None and after < first - 1:
            raise EntriesDropped(f"the log begins at {first}", field="after", value=after)
        return self._read(Position(after))

    def _read(self, after: Position) -> Iterator[tuple[Position, bytes]]:
        before: bytes | None = None
        while rows := self._next_rows(after):
            for position, checksum, body, chain in rows:
                if position != after + 1:
                    self._explain_gap(after)
                if checksum != _checksum(position, body):
                    raise self._damaged(f"entry {position} is not what was written", position)
                if before is not None and chain != _chained(before, position, body):
                    raise self._damaged(f"entry {position} does not follow the one before it", position)
                yield position, body
                after, before = position, chain

    def _damaged(self, reason: str, position: Position) -> LogDamaged:
        return LogDamaged(reason, field=str(self._file.path), value=position)

    def _next_rows(self, after: Position) -> list[tuple[Position, int, bytes, bytes | None]]:
        rows, size = [], 0
        question = "SELECT position, checksum, body, chain FROM entries WHERE position > ? ORDER BY position LIMIT ?"
        with (
            self._file.reading() as connection,
            closing(connection.execute(question, (after, _MAX_READ_ROWS))) as found,
        ):
            for row in found:
                rows.append(row)
                size += len(row[2])
                if size > _MAX_READ_BYTES:
                    break
        return rows

    def _explain_gap(self, after: Position) -> None:
        with self._file.reading() as connection:
            first = _first(connection)
        if first is not None and first > after + 1:
            raise EntriesDropped(f"the log begins at {first} by now", field="after", value=after)
        raise LogDamaged(f"entry {after + 1} is missing", field=str(self._file.path), value=after + 1)

    @property
    def following_failure(self) -> LogError | None:
        """Nobody else appends, so there is nothing to hear of."""
        return None

    def wait_beyond(self, position: Position, seconds: float) -> Position:  # noqa: ARG002
        """Nobody else appends, so there is nothing to wait for."""
        return self.head

    def save_snapshot(self, position: int, state: bytes) -> None:
        """Keep the state after the entry at this position, durably, and the newest intact snapshot before it."""
        with self._file.writing() as connection:
            head, kept = _head(connection), _snapshots(connection)
            newest = kept[0] if kept else LOG_START
            if not newest <= position <= head:
                reason = f"the last snapshot is at {newest} and the log ends at {head}"
                raise LogError(reason, field="position", value=position)
            before = next((p for p in kept if p != position and _load(connection, p) is not None), position)
            connection.execute("DELETE FROM snapshots WHERE position != ?", (before,))
            row = (position, _digest(position, state), state)
            connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", row)

    def latest_snapshot(self) -> Recovery:
        """The newest snapshot that is intact, if there is one."""
        damaged: list[Position] = []
        with self._file.reading() as connection:
            for position in _snapshots(connection):
                state = _load(connection, position)
                if state is not None:
                    return Recovery(LogSnapshot(position, state), tuple(damaged))
                damaged.append(position)
        return Recovery(None, tuple(damaged))

    def intact_snapshots(self) -> dict[Position, bool]:
        """For each snapshot, the newest first, whether it is what was saved."""
        with self._file.reading() as connection:
            return {position: _load(connection, position) is not None for position in _snapshots(connection)}

    def checkpoint(self) -> None:
        """Leave nothing in the write-ahead log, so that damage there can concern only what comes from now on."""
        self._file.checkpoint()

    def compact(self, max_rows: int = 1000) -> int:
        """Drop some entries that need not be kept, and tell how many: 0 means that nothing is left to drop.

        Entries go in steps, so that appends find their turn in between, and so that a step needs little room on a full
        disk.
        """
        with self._file.writing() as connection:
            kept = _snapshots(connection)
            if len(kept) < 2:
                return 0
            first = _first(connection)
            if first is None:
                return 0
            bound = min(kept[-1], first + max_rows - 1)
            return connection.execute("DELETE FROM entries WHERE position <= ?", (bound,)).rowcount


def _head(connection: sqlite3.Connection) -> Position:
    # never empty again once it was not: compaction stops at the older of two snapshots
    return Position(connection.execute("SELECT max(position) FROM entries").fetchone()[0] or LOG_START)


def _first(connection: sqlite3.Connection) -> Position | None:
    first: Position | None = connection.execute("SELECT min(position) FROM entries").fetchone()[0]
    return first


def _snapshots(connection: sqlite3.Connection) -> list[Position]:
    """The positions of snapshots, the newest first."""
    return [position for (position,) in connection.execute("SELECT position FROM snapshots ORDER BY position DESC")]


def _load(connection: sqlite3.Connection, position: Position) -> bytes | None:
    """The state of a snapshot, or None if it is not what was saved."""
    try:
        question = "SELECT digest, state FROM snapshots WHERE position = ?"
        digest, state = connection.execute(question, (position,)).fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return None
    return state if digest == _digest(position, state) else None


def _chained(before: bytes, position: int, body: bytes) -> bytes:
    """Stands for the entry at this position and, with the chain of the entry before, for all that came before it."""
    return hashlib.blake2b(b"%d " % position + body, key=before, digest_size=CHAIN_BYTES).digest()


# Checksum and digest cover the position, so that a row in the wrong place is noticed as well.


def _checksum(position: int, body: bytes) -> int:
    return zlib.crc32(body, position & 0xFFFFFFFF)


def _digest(position: int, state: bytes) -> bytes:
    digest = hashlib.sha256(b"%d " % position)
    digest.update(state)
    return digest.digest()

"""A log moves: from the folder of one process to an etcd that many share, or back. It goes on as the same log.

The newest intact snapshot and the entries behind it are all that a log needs to go on. Positions stay, and with them
ids and the numbers of publishers. Of the two logs never more than one can be used: the old one is marked before the new
one becomes a log. A move that was killed is repeated; until it has ended, neither may be usable, and nothing is lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pleroma.control.log.durable_log import LOG_START, Log, LogSnapshot, Position
from pleroma.control.log.etcd.etcd_address import EtcdAddress
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.etcd_lease import LEAD_OFFICE, OfficeHolder
from pleroma.control.log.etcd.etcd_log import EtcdLog
from pleroma.control.log.etcd.format_mark import LogStage
from pleroma.control.log.etcd.log_passage import LogArrival, end_log, find_move
from pleroma.control.log.lock_file import LockFile
from pleroma.control.log.log_examination import head_path, wal_path
from pleroma.control.log.moved_mark import MovedMark, read_moved_mark, unmark
from pleroma.control.log.private_files import make_private
from pleroma.control.log.sqlite_file import clear_errors
from pleroma.control.log.sqlite_log import SqliteLog
from pleroma.control.logged_state import LOG_FILE_NAME, brought_up_to_date
from pleroma.errors import EntriesDropped, LogDamaged, LogError, LogLocked

_LEASE_SECONDS = 30
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class LogMove:
    """What was moved: the log ends at `position`, and begins with a snapshot there, if it has one."""

    position: Position
    snapshot: Position | None
    entries: int


def move_to_shared(folder: Path, address: EtcdAddress, shared: Mapping[str, bytes]) -> LogMove:
    """Make the log in a folder the beginning of a shared one, together with secrets that all processes share."""
    path = folder / LOG_FILE_NAME
    if not path.is_file():
        raise LogError("there is no log here", field=str(path))
    with brought_up_to_date(folder) as log, closing(EtcdGateway(address)) as gateway:
        mark = read_moved_mark(path)
        if mark is not None and (mark.is_coming or mark.url != str(address)):
            raise mark.refusal(path)
        if mark is not None and _became_a_log(gateway, mark, path):
            return _moved(log)
        mark = MovedMark(str(address), secrets.token_hex(_ID_BYTES))
        arrival = LogArrival(gateway, mark.id)
        for name, secret in shared.items():
            arrival.put_secret(name, secret)
        snapshot, entries = _continuation(log)
        if snapshot is not None:
            arrival.put_snapshot(snapshot)
        arrival.put_entries(entries)
        mark.write(path)
        arrival.finish()
        return _moved(log)


def move_to_folder(address: EtcdAddress, folder: Path, keep_secrets: Callable[[EtcdLog], None]) -> LogMove:
    """Make a shared log one of a single process, in a folder that has none. No process may lead on it meanwhile."""
    path = folder / LOG_FILE_NAME
    make_private(folder)
    mark = read_moved_mark(path)
    if mark is not None and mark.url != str(address):
        raise mark.refusal(path)
    if mark is not None and not mark.is_coming:
        return _give_up(address, folder, mark)
    if mark is None and path.exists():
        raise LogError("there is a log already: a shared log is moved to a folder without one", field=str(path))
    with closing(EtcdGateway(address)) as gateway:
        there = find_move(gateway)
        if there is None:
            raise LogError("there is no log of this name", field=str(address), value=address.name)
        if mark is None or there.stage is not LogStage.GONE or there.move != mark.id:
            _copy_to_folder(address, path, keep_secrets)
    unmark(path)
    with brought_up_to_date(folder) as log:
        return _moved(log)


def _copy_to_folder(address: EtcdAddress, path: Path, keep_secrets: Callable[[EtcdLog], None]) -> None:
    mark = MovedMark(str(address), secrets.token_hex(_ID_BYTES), is_coming=True)
    with EtcdLog.open(address) as shared, shared.office(LEAD_OFFICE) as office:
        lease = office.claim(b"a move of the log", _LEASE_SECONDS)
        if isinstance(lease, OfficeHolder):
            holder = lease.value.decode(errors="replace")
            raise LogLocked(f"{holder} leads on this log: stop it first", field=str(address), value=holder)
        try:
            mark.write(path)
            with clear_errors(path):
                _remove(path)
            snapshot, entries = _continuation(shared)
            with SqliteLog.open(path) as log:
                log.take_over(snapshot, entries)
                log.checkpoint()
                head = log.head
            keep_secrets(shared)
            end_log(shared.gateway, head, mark.id, str(path.parent))
        finally:
            lease.release()


def _continuation(log: Log) -> tuple[LogSnapshot | None, Iterator[tuple[Position, bytes]]]:
    """The newest intact snapshot and the entries behind it; at least the last one, for a log is never empty again."""
    snapshot, head = log.latest_snapshot().snapshot, log.head
    if head == LOG_START:
        raise LogError("there is nothing in this log", field="log")
    try:
        after = LOG_START if snapshot is None else min(snapshot.position, Position(head - 1))
        return snapshot, log.read(after)
    except EntriesDropped:
        raise LogDamaged("no snapshot is intact, and entries before it are gone", field="log") from None


def _moved(log: SqliteLog) -> LogMove:
    snapshot, entries = _continuation(log)
    return LogMove(log.head, None if snapshot is None else snapshot.position, sum(1 for _ in entries))


def _give_up(address: EtcdAddress, folder: Path, mark: MovedMark) -> LogMove:
    """Go on with the log of a folder whose move has not ended, and cannot end any more then."""
    path = folder / LOG_FILE_NAME
    with brought_up_to_date(folder) as log, closing(EtcdGateway(address)) as gateway:
        if _became_a_log(gateway, mark, path):
            reason = "there is an earlier part of the log already: a shared log is moved to a folder without one"
            raise LogError(reason, field=str(path))
        if read_moved_mark(path) is not None:
            LogArrival(gateway, secrets.token_hex(_ID_BYTES)).give_up()
            unmark(path)
        return _moved(log)


def _became_a_log(gateway: EtcdGateway, mark: MovedMark, path: Path) -> bool:
    """Whether the move that has marked a folder has ended. The mark is removed if another log is in its place."""
    there = find_move(gateway)
    if there is None or there.stage is LogStage.COMING:
        return False
    if there.move != mark.id:
        unmark(path)
    return there.move == mark.id


def _remove(path: Path) -> None:
    """Remove what a move has left that did not end, under the lock of its log."""
    lock = LockFile(Path(f"{path}.lock"), path)
    try:
        for each in (wal_path(path), Path(f"{path}-shm"), head_path(path), path):
            each.unlink(missing_ok=True)
    finally:
        lock.release()

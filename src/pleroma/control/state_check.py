"""Whether a controller could start from its folder, found out without starting one and without changing anything.

A controller may be running there meanwhile: what it has noted is read before the log, which can only be further.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pleroma.control.control_state import ControlState, fingerprint
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log.durable_log import LOG_START, Recovery
from pleroma.control.log.lock_file import lock_holder
from pleroma.control.log.log_examination import examine
from pleroma.control.log.mount_kind import is_shared, mount_kind
from pleroma.control.log.moved_mark import read_moved_mark
from pleroma.control.log.private_files import exposures
from pleroma.control.log.read_only_file import ReadOnlyFile
from pleroma.control.log.sqlite_file import clear_errors
from pleroma.control.log.sqlite_log import SqliteLog
from pleroma.control.log_fold import LogFold
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state_snapshot import restore
from pleroma.errors import PleromaError
from pleroma.routing import Topology


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part of the state; `is_fault` if somebody has to do something about it."""

    part: str
    text: str
    is_fault: bool = False


def check_state(folder: Path, topologies: Sequence[Topology]) -> list[Finding]:
    """Look at everything in turn. Commands are folded if the log was made for one of these networks."""
    path = folder / LOG_FILE_NAME
    findings: list[Finding] = []
    parts: dict[str, Callable[[], Iterable[Finding]]] = {
        "permissions": lambda: _permissions(folder),
        "lock": lambda: _lock(folder, path),
        "place": lambda: _place(path),
        "head": lambda: _head(path),
        "database": lambda: _database(path),
        "entries": lambda: _entries(path),
        "snapshots": lambda: _snapshots(path),
        "state": lambda: _state(path, topologies),
    }
    for part, look in parts.items():
        try:
            with clear_errors(path):
                findings += look()
        except PleromaError as error:
            findings.append(Finding(part, str(error), is_fault=True))
    return findings


def _permissions(folder: Path) -> Iterator[Finding]:
    faults = exposures(folder)
    yield from (Finding("permissions", fault, is_fault=True) for fault in faults)
    if not faults:
        yield Finding("permissions", "only its owner can read it")


def _lock(folder: Path, path: Path) -> Iterator[Finding]:
    holder = lock_holder(Path(f"{path}.lock"))
    yield Finding("lock", "free" if holder is None else f"held by process {holder}")
    kind = mount_kind(folder)
    if is_shared(kind):
        yield Finding("lock", f"on a network file system ({kind}): locks of other machines may not be seen")


def _place(path: Path) -> Iterator[Finding]:
    mark = read_moved_mark(path)
    if mark is not None:
        yield Finding("place", mark.refusal(path).reason, is_fault=True)


def _head(path: Path) -> Iterator[Finding]:
    found = examine(path)
    yield from (Finding("head", fault, is_fault=True) for fault in found.faults)
    if found.mark is None:
        reason = f"{path}.head is missing or unreadable: whether the log has lost its end cannot be told"
        yield Finding("head", reason, is_fault=True)
    elif not found.faults:
        yield Finding("head", f"{found.mark.position} entries were acknowledged, and the log has them")
    torn = ", and an interrupted transaction behind them" if found.wal.is_torn else ""
    yield Finding("write-ahead log", f"{found.wal.frames} valid frames{torn}")


def _database(path: Path) -> Iterator[Finding]:
    with closing(ReadOnlyFile(path)) as file, file.reading() as connection:
        rows = [" ".join(text.split()) for (text,) in connection.execute("PRAGMA integrity_check(10)")]
    if rows == ["ok"]:
        yield Finding("database", "intact")
    else:
        yield from (Finding("database", row, is_fault=True) for row in rows)


def _entries(path: Path) -> Iterator[Finding]:
    with SqliteLog(ReadOnlyFile(path)) as log:
        first = log.first
        count = sum(1 for _ in log.read(max(first - 1, LOG_START)))
    yield Finding("entries", f"{count} from {first} on, each as it was written" if count else "none")


def _snapshots(path: Path) -> Iterator[Finding]:
    with SqliteLog(ReadOnlyFile(path)) as log:
        kept = log.intact_snapshots()
    for position, is_intact in kept.items():
        found = "intact" if is_intact else "damaged; the one before is used, or the log from its beginning"
        yield Finding("snapshots", f"at {position}: {found}", not is_intact)
    if not kept:
        yield Finding("snapshots", "none yet")


def _state(path: Path, topologies: Sequence[Topology]) -> Iterator[Finding]:
    with SqliteLog(ReadOnlyFile(path)) as log:
        if log.head == LOG_START:
            yield Finding("state", "nothing was accepted yet")
            return
        recovery = log.latest_snapshot()
        settings, network = _made_with(log, recovery)
        topology = next((each for each in topologies if fingerprint(each) == network), None)
        if topology is None:
            yield Finding("state", "not replayed: made for another network (--topology)")
            return
        state, answers = ControlState(topology, settings), KeptAnswers()
        if recovery.snapshot is not None:
            state, answers = restore(recovery.snapshot.state, topology, settings)
        fold = LogFold(state, answers)
        for position, body in log.read(recovery.position):
            fold.fold(position, body)
    counts = (
        f"{len(state.schemas)} schemas, {len(state.principals)} principals, {len(state.registrations)} registrations"
    )
    yield Finding("state", f"replayed: {counts}")


def _made_with(log: SqliteLog, recovery: Recovery) -> tuple[ControlSettings, str]:
    """The settings and the network of the log, as its snapshot or its first entry has them."""
    made: dict[str, Any]
    if recovery.snapshot is not None:
        made = json.loads(recovery.snapshot.state.partition(b"\n")[0])
    else:
        made = json.loads(next(log.read())[1])["command"]
    return ControlSettings(**made["settings"]), made["network"]

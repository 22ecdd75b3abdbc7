"""Keeping a lake tidy: rows that are too old go, small files become larger ones, and files nobody needs are removed.

Anybody may do this at any time, also several at once, while others land and read. Files are merged hour by hour, in the
order of their landings and only where that saves much, so that no row is written again and again. A damaged file is
named in `refused` and stays; the files around it are merged. What fails in one table does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from itertools import groupby
from typing import NamedTuple

from pleroma.errors import DamagedFile, LakeError
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import KEPT_HOURS, LakeTable
from pleroma.pipeline.lake.lake_tables import TABLES, EventColumns
from pleroma.pipeline.lake.landed import REGISTRATION_TABLES, RegistrationTable
from pleroma.pipeline.lake.moments import hour_name, utc
from pleroma.pipeline.lake.registration_history import OVER
from pleroma.pipeline.lake.settling import settle
from pleroma.pipeline.lake.table_files import Condition, TableFile, ValueSpan

LARGE_FILE_BYTES = 32 << 20
LARGE_FILE_ROWS = 1 << 20
"""A file of this size, or of so many rows, is not merged with others, and no merged file is made larger."""
MANY_FILES = 8
"""So many files beside the largest are always worth merging."""
CURRENT_HOUR_FILES = 32
"""So many files make merging worth while in an hour that is not over."""

LONGEST_DAYS = 500_000
"""Who keeps for longer keeps everything: the calendar goes back no further."""


class FailedTable(NamedTuple):
    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    merged: int = 0
    """Files that became part of others."""
    settled: int = 0
    """Subscriptions and advertisements that ended, and are one row since."""
    expired: int = 0
    """Rows that were too old."""
    removed: int = 0
    """Files that were removed."""
    failed: tuple[FailedTable, ...] = ()

    def __add__(self, other: MaintenanceResult) -> MaintenanceResult:
        return MaintenanceResult(
            self.merged + other.merged,
            self.settled + other.settled,
            self.expired + other.expired,
            self.removed + other.removed,
            self.failed + other.failed,
        )


class _Chore(NamedTuple):
    """What is to be done in a table."""

    table: LakeTable
    hour: str | None = None
    """The column of the hour: files of the current one are merged when they are many."""
    landing: str | None = None
    """The column of the landing: only files that follow each other are merged."""
    expiring: tuple[Condition, ...] = ()
    """Which rows are too old."""
    settling: RegistrationTable | None = None
    """Whose registrations that have ended become one row."""


def maintain(
    lake: Lake,
    keep_days: float,
    now: datetime | None = None,
    kept_hours: float = KEPT_HOURS,
    advance: Callable[[float], None] = lambda _: None,
) -> MaintenanceResult:
    """Tidy all tables of a lake up; events, reports and ended registrations older than `keep_days` go.

    `kept_hours` is how long files that were merged stay for those who read an older version. `advance` is called with
    the share of the work that has been done since its last call.
    """
    moment = utc(now or datetime.now(UTC))
    failures: list[MaintenanceResult] = []
    oldest = moment - timedelta(days=min(keep_days, LONGEST_DAYS))
    chores = list(_chores(lake, oldest, failures))

    def done(chore: _Chore) -> MaintenanceResult:
        result = _tidied(lake, chore, hour_name(moment), kept_hours)
        advance(1 / len(chores))
        return result

    return reduce(MaintenanceResult.__add__, [*failures, *map(done, chores)], MaintenanceResult())


def _chores(lake: Lake, oldest: datetime, failures: list[MaintenanceResult]) -> Iterator[_Chore]:
    today = oldest.replace(hour=0, minute=0, second=0, microsecond=0)  # these are rewritten once a day, not every hour
    for name in lake.schemas():
        try:
            names = EventColumns.of(lake.schema(name))
        except LakeError as error:
            failures.append(MaintenanceResult(failed=(FailedTable("schemas", str(error)),)))
        else:
            expiring = (Condition(names.hour, "<", hour_name(oldest)),)
            yield _Chore(lake.event_table(name), names.hour, names.landing, expiring)
    yield _Chore(lake.table("reports"), "hour", "landing", (Condition("hour", "<", hour_name(oldest)),))
    over = Condition("state", "==", OVER), Condition("until", "<", today)
    yield from (_Chore(lake.table(kind), expiring=over, settling=kind) for kind in REGISTRATION_TABLES)
    yield _Chore(lake.table("refused"), expiring=(Condition("at", "<", today),))
    others = TABLES.keys() - {"reports", "refused", *REGISTRATION_TABLES}
    yield from (_Chore(lake.table(name)) for name in sorted(others))


def _tidied(lake: Lake, chore: _Chore, hour: str, kept_hours: float) -> MaintenanceResult:
    table, failed = chore.table, []

    def tried(step: Callable[[], int]) -> int:
        try:
            return step()
        except LakeError as error:
            failed.append(FailedTable(table.definition.path, str(error)))
            return 0

    kind = chore.settling
    settled = 0 if kind is None else sum(tried(partial(settle, lake, kind, name)) for name in lake.schemas())
    expired = tried(lambda: table.delete(chore.expiring) if chore.expiring and table.files(chore.expiring) else 0)
    merged = tried(lambda: sum(_merged(lake, chore, run) for run in _runs(chore, hour)))
    removed = tried(lambda: table.vacuum(kept_hours))
    return MaintenanceResult(merged, settled, expired, removed, tuple(failed))


def _runs(chore: _Chore, hour: str) -> Iterator[list[tuple[TableFile, ValueSpan]]]:
    """Files that are worth merging, all of one partition; where rows have landings, files that follow each other."""
    if chore.landing:
        found = [each for each in chore.table.files_and_spans(chore.landing) if each[1].least is not None]
    else:
        found = [(file, ValueSpan(0, 0, 0)) for file in chore.table.files()]
    found.sort(key=lambda each: (each[0].partition, each[1], each[0].path))
    for partition, files in groupby(found, key=lambda each: each[0].partition):
        is_over = dict(partition).get(chore.hour or "") != hour
        for run in _pieces(list(files)) if chore.landing else (list(files),):
            if _is_worth_while([file.size for file, _ in run], is_over):
                yield run


def _pieces(files: Sequence[tuple[TableFile, ValueSpan]]) -> Iterator[list[tuple[TableFile, ValueSpan]]]:
    """Cut before whatever would make a merged file too large."""
    piece: list[tuple[TableFile, ValueSpan]] = []
    for each in files:
        size = sum(file.size for file, _ in (*piece, each))
        rows = sum(file.rows or 0 for file, _ in (*piece, each))
        if piece and (size > LARGE_FILE_BYTES or rows > LARGE_FILE_ROWS):
            yield piece
            piece = []
        piece.append(each)
    if piece:
        yield piece


def _is_worth_while(sizes: Sequence[int], is_over: bool) -> bool:
    """Whether merging saves many files, or those beside the largest are not small: it is written again as well."""
    *others, largest = sorted(sizes)
    if not is_over:
        return len(sizes) >= CURRENT_HOUR_FILES
    return len(others) >= MANY_FILES or 2 * sum(others) >= largest


def _merged(lake: Lake, chore: _Chore, run: Sequence[tuple[TableFile, ValueSpan]]) -> int:
    """Merge files; if one is damaged, those before it and those after it. How many became part of others."""
    if len(run) < 2:
        return 0
    conditions = [Condition(name, "==", value) for name, value in run[0][0].partition]
    if chore.landing:
        least, most = min(span.least for _, span in run), max(span.most for _, span in run)
        conditions += [Condition(chore.landing, ">=", least), Condition(chore.landing, "<=", most)]
    try:
        return chore.table.rewrite(conditions, lambda rows: rows)
    except DamagedFile as error:
        place = next((i for i, (file, _) in enumerate(run) if file.path == error.field), None)
        if place is None:
            raise
        lake.refuse(chore.table.definition.path, run[place][0].path, error)
        if not chore.landing:
            return 0
        return _merged(lake, chore, run[:place]) + _merged(lake, chore, run[place + 1 :])

"""Where things are in a lake, and what its files hold.

    schemas/NAME.json
    sampling/NAME.json
    plans/schema=NAME/epoch-00000012.json
    events/schema=NAME/date=2026-11-15/hour=16/part-001795000000000-000001-5f0c1b2a.parquet
    reports/schema=NAME/date=2026-11-15/hour=16/part-….parquet
    subscriptions/schema=NAME/since-001795000000000000.parquet

The hour is the one in which things happened; the name of a part says when it was landed. There is one writer, whose
parts have ever greater names, so that "all that came after this name" is a question with one answer. Parts of an hour
that is over may have been put together in a fold, `fold-FIRST-LAST-….parquet` beside them. It holds all parts of its
folder that were landed in that stretch of time, so that names alone say which parts are to be passed over.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa

from pleroma.content import Filter, Schema
from pleroma.content.arrow_columns import column_type
from pleroma.index import IndexPlan

PartKind = Literal["events", "reports"]
PART_KINDS: tuple[PartKind, ...] = ("events", "reports")
"""Kinds of rows that are landed in parts."""

SINCE_LABEL = b"pleroma.since"
ROW_BITS = 18
MAX_PART_ROWS = 1 << ROW_BITS
"""Rows of one part. An event's id is the moment of its part and, in the low `ROW_BITS`, its row in the part."""

MOMENT_TYPE = pa.timestamp("us", tz="UTC")
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_HOUR = timedelta(hours=1)

_PART = re.compile(r"part-(\d{15})-\d{6}-[0-9a-f]{8}\.parquet")
_FOLD = re.compile(r"fold-(\d{15})-(\d{15})-[0-9a-f]{8}\.parquet")
_SNAPSHOT = re.compile(r"since-(\d{18})\.parquet")
_PLAN = re.compile(r"epoch-(\d{8,})\.json")
_FOLDER = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/([^/]+)$")


class LandedFile(NamedTuple):
    path: str
    """In the lake's file system."""
    key: str
    """The name of the file, without its folder."""
    date: str
    hour: int
    size: int = 0
    """In bytes."""
    first: int = 0
    last: int = 0
    """When the first and the last part in it were landed, in milliseconds: of a fold two moments, of a part one."""


class LandedPlan(NamedTuple):
    epoch: int
    since: datetime
    members: int | None
    plan: IndexPlan


class LandedSnapshot(NamedTuple):
    path: str
    since: datetime
    until: datetime | None


class ReportRow(NamedTuple):
    """What a subscriber counted since its report before."""

    subscription: str
    principal: str
    delivered: int = 0
    wasted: int = 0
    duplicates: int = 0
    dropped: int = 0


class SubscriptionRow(NamedTuple):
    id: str
    principal: str
    host: str
    filter: Filter


class SubscriptionSnapshot(NamedTuple):
    """All subscriptions of a schema from `since` on, and before `until` if another followed."""

    since: datetime
    until: datetime | None
    rows: list[SubscriptionRow]


def quoted(name: str) -> str:
    """A schema's name in a path. It never begins with a dot: listings leave such files out."""
    safe = quote(name, safe="", errors="surrogatepass")
    return f"%2E{safe[1:]}" if safe.startswith(".") else safe


def unquoted(name: str) -> str:
    return unquote(name, errors="surrogatepass")


def schema_path(name: str) -> str:
    return f"schemas/{quoted(name)}.json"


def schema_name(path: str) -> str | None:
    file = path.rpartition("/")[2]
    return unquoted(file.removesuffix(".json")) if file.endswith(".json") and not file.startswith(".") else None


def sampling_path(name: str) -> str:
    return f"sampling/{quoted(name)}.json"


def folder(kind: str, name: str) -> str:
    return f"{kind}/schema={quoted(name)}"


def plan_path(name: str, epoch: int) -> str:
    return f"{folder('plans', name)}/epoch-{epoch:08d}.json"


def plan_epoch(path: str) -> int | None:
    found = _PLAN.fullmatch(path.rpartition("/")[2])
    return int(found[1]) if found else None


def snapshot_path(name: str, since: datetime) -> str:
    return f"{folder('subscriptions', name)}/since-{microseconds(since):018d}.parquet"


def snapshot_since(path: str) -> datetime | None:
    found = _SNAPSHOT.fullmatch(path.rpartition("/")[2])
    return UNIX_EPOCH + timedelta(microseconds=int(found[1])) if found else None


def part_path(kind: PartKind, name: str, hour: datetime, key: str) -> str:
    return f"{folder(kind, name)}/date={hour:%Y-%m-%d}/hour={hour:%H}/{key}"


def part_key(moment: int, sequence: int, mark: str) -> str:
    """`moment` in milliseconds; `mark` is what makes the names of two writers by mistake different."""
    return f"part-{moment:015d}-{sequence:06d}-{mark}.parquet"


def fold_key(first: int, last: int, mark: str) -> str:
    return f"fold-{first:015d}-{last:015d}-{mark}.parquet"


def landed_file(path: str, size: int = 0) -> LandedFile | None:
    """What a path of a part or a fold says, or None for anything else, such as a part that is being written."""
    found = _FOLDER.search(path)
    name = None if found is None else _PART.fullmatch(found[3]) or _FOLD.fullmatch(found[3])
    if found is None or name is None:
        return None
    return LandedFile(path, found[3], found[1], int(found[2]), size, int(name[1]), int(name[name.re.groups]))


def moment_of(key: str) -> int:
    """When a part, or the last part of a fold, was landed, in milliseconds."""
    found = _PART.fullmatch(key) or _FOLD.fullmatch(key)
    return int(found[found.re.groups]) if found else 0


def is_fold(file: LandedFile) -> bool:
    return file.key.startswith("fold-")


def folded(files: Iterable[LandedFile]) -> Iterator[tuple[LandedFile, LandedFile]]:
    """The parts that are in a fold as well, each with the fold."""
    folders: dict[str, list[LandedFile]] = {}
    for file in files:
        folders.setdefault(file.path.rpartition("/")[0], []).append(file)
    for together in folders.values():
        folds = [file for file in together if is_fold(file)]
        for part in together if folds else ():
            if not is_fold(part):
                yield from ((part, fold) for fold in folds if fold.first <= part.last <= fold.last)


def hour_of(file: LandedFile) -> datetime:
    return datetime.fromisoformat(file.date).replace(hour=file.hour, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    return (moment - UNIX_EPOCH) // timedelta(microseconds=1)


def checksum(schema: Schema) -> str:
    """A checksum of a schema, by which a file says which schema its events are of."""
    text = json.dumps(schema.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


class EventColumns(NamedTuple):
    """What the columns beside the attributes are called: `id`, `at`, `epoch`, `rate`.

    Where an attribute has that name, with however large letters, the column has a `_` in front: `_id`.
    """

    id: str
    at: str
    epoch: str
    rate: str

    @classmethod
    def of(cls, schema: Schema) -> EventColumns:
        taken = {name.lower() for name in schema.names}
        return cls(*(_free(name, taken) for name in cls._fields))


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def event_schema(schema: Schema) -> Any:
    """The columns of a file of events, in Arrow's terms."""
    names = EventColumns.of(schema)
    own = [(names.id, pa.int64()), (names.at, MOMENT_TYPE), (names.epoch, pa.int32()), (names.rate, pa.float64())]
    return pa.schema([*own, *((each.name, column_type(each)) for each in schema.attributes)])


REPORT_COUNTERS = ReportRow._fields[2:]
REPORT_SCHEMA = pa.schema(
    [
        ("at", MOMENT_TYPE),
        ("subscription", pa.string()),
        ("principal", pa.string()),
        *((each, pa.int64()) for each in REPORT_COUNTERS),
    ]
)
SNAPSHOT_SCHEMA = pa.schema([(each, pa.string()) for each in SubscriptionRow._fields])


def columns_of(kind: str, schema: Schema) -> Any:
    """What a file of a kind has to hold."""
    return {"reports": REPORT_SCHEMA, "subscriptions": SNAPSHOT_SCHEMA}.get(kind) or event_schema(schema)

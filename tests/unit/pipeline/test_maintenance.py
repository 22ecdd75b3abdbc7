"""A lake is tidied up, and nobody who reads can tell: nothing is lost, nothing comes twice, and what is old goes."""

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pleroma.content import Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake import lake_table, maintenance
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import REGISTRATION_TABLES, BatchId, ReportedCounters, ReportRow
from pleroma.pipeline.lake.maintenance import FailedTable, MaintenanceResult, maintain
from support.strategies import STOCK
from support.table_rows import append

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATER = NOON + 20 * HOUR
FOR_EVER = float("inf")
"""In days."""


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(STOCK, NOON)
    return made


def land(lake, number, at=NOON, rows=2):
    event = STOCK.event(price=0.5, volume=number, ticker="T")
    lake.land_events(EventBatch.from_events(STOCK, [event] * rows), [at] * rows, 1, 0.5)
    lake.land_reports([ReportedCounters("stock", at, (ReportRow("s1", "me", number),))])


def subscribed(lake, at, *ids):
    lake.land_subscriptions("stock", at, [(each, "me", "h1", "[{}]") for each in ids])


def tables_of(lake):
    return lake.event_table("stock"), lake.table("reports")


def rows(lake):
    return [sorted(map(repr, table.rows().to_pylist())) for table in tables_of(lake)]


def volumes(lake):
    return sorted(lake.events("stock").columns[STOCK.names.index("volume")].tolist())


def on_disk(table):
    return sorted(path for path in Path(table.url).rglob("*.parquet") if "_delta_log" not in path.parts)


def test_the_files_of_an_hour_become_one_and_the_same_is_read(lake):
    for number in range(6):
        land(lake, number, NOON + number % 2 * HOUR)
    before = rows(lake)
    assert maintain(lake, FOR_EVER, LATER) == MaintenanceResult(merged=12)
    assert [len(table.files()) for table in tables_of(lake)] == [2, 2]
    assert rows(Lake.at(lake.url)) == rows(lake) == before
    assert maintain(lake, FOR_EVER, LATER) == MaintenanceResult()  # what is together stays
    assert lake.event_table("stock").landed("landing") == 6


def test_all_other_tables_are_merged_too(lake):
    for epoch in range(1, 5):
        lake.land_plan(IndexPlan(epoch, GridIndex.regular(STOCK, epoch)), NOON + epoch * HOUR)
        lake.land_sampling("stock", epoch / 10)
    plans = lake.plans("stock")
    assert maintain(lake, FOR_EVER, LATER).merged == 4 + 5
    assert [len(lake.table(name).files()) for name in ("plans", "schemas")] == [1, 1]
    assert Lake.at(lake.url).plans("stock") == plans
    assert Lake.at(lake.url).sampling("stock") == 0.4


def test_an_hour_that_is_not_over_is_merged_when_it_has_many_files(lake):
    for number in range(maintenance.CURRENT_HOUR_FILES - 1):
        land(lake, number)
    assert maintain(lake, FOR_EVER, NOON + HOUR - MINUTE).merged == 0
    land(lake, 99)
    assert maintain(lake, FOR_EVER, NOON + HOUR - MINUTE).merged == 2 * maintenance.CURRENT_HOUR_FILES
    assert [len(table.files()) for table in tables_of(lake)] == [1, 1]


def test_a_large_file_is_not_written_again_for_a_few_small_ones(lake, monkeypatch):
    prices = np.random.default_rng(1).random(20_000)
    lots = EventBatch.from_columns(STOCK, {"price": prices, "volume": [1] * 20_000, "ticker": ["T"] * 20_000})
    lake.land_events(lots, [NOON] * 20_000, 1, 0.5)
    (large,) = lake.event_table("stock").files()
    for number in range(1, maintenance.MANY_FILES):
        land(lake, number)
        maintain(lake, FOR_EVER, LATER)
    assert large in lake.event_table("stock").files()
    land(lake, 99)
    maintain(lake, FOR_EVER, LATER)
    assert len(lake.event_table("stock").files()) == 1
    (merged,) = lake.event_table("stock").files()
    monkeypatch.setattr(maintenance, "LARGE_FILE_BYTES", merged.size)
    for number in range(20):
        land(lake, number)
    maintain(lake, FOR_EVER, LATER)
    assert merged in lake.event_table("stock").files()
    assert len(lake.event_table("stock").files()) == 2


def test_a_merged_file_is_never_too_large(lake, monkeypatch):
    for number in range(10):
        land(lake, number)
    size = max(file.size for file in lake.event_table("stock").files())
    monkeypatch.setattr(maintenance, "LARGE_FILE_BYTES", 5 * size)
    maintain(lake, FOR_EVER, LATER)
    assert sorted(file.rows for file in lake.event_table("stock").files()) == [10, 10]
    for number in range(10, 20):
        land(lake, number)
    monkeypatch.setattr(maintenance, "LARGE_FILE_ROWS", 10)
    maintain(lake, FOR_EVER, LATER)
    assert [file.rows for file in lake.event_table("stock").files()] == [10] * 4
    assert volumes(lake) == sorted([*range(20)] * 2)


def test_rows_that_are_landed_while_others_are_merged_are_not_lost(lake, monkeypatch):
    """In tables with landings and without, in the same partition."""
    for number in range(3):
        land(lake, number)
        lake.land_sampling("stock", number / 10)
    other, real, left = Lake.at(lake.url), lake_table.write_deltalake, [3, 4]

    def interrupted(*given, **more):
        with monkeypatch.context() as patched:
            patched.setattr(lake_table, "write_deltalake", real)
            if left:
                number = left.pop()
                land(other, number)
                other.land_sampling("stock", number / 10)
        real(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(lake_table, "write_deltalake", interrupted)
        patched.setattr(lake_table, "_PAUSE_SECONDS", 0.0)
        assert maintain(lake, FOR_EVER, LATER).failed == ()
    assert left == []
    assert volumes(lake) == sorted([*range(5)] * 2)
    rates = [row["rate"] for row in lake.table("schemas").rows().to_pylist()]
    assert sorted(rates, key=str) == [0.0, 0.1, 0.2, 0.3, 0.4, None]


def test_readers_see_the_same_rows_while_files_are_merged(lake):
    for number in range(12):
        land(lake, number, NOON + number % 2 * HOUR)
    over, seen, failures = threading.Event(), set(), []

    def read():
        mine = Lake.at(lake.url)
        try:
            while not over.is_set():
                seen.add((len(mine.events("stock")), len(mine.table("reports").rows())))
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    while not seen and not failures:
        time.sleep(0.001)
    for number in range(3):
        assert maintain(lake, FOR_EVER, LATER).merged == (24 if number == 0 else 0)
    over.set()
    thread.join(60)
    assert (failures, seen) == ([], {(24, 12)})


def test_attributes_that_a_schema_has_no_more_stay_when_their_rows_are_merged(lake):
    land(lake, 1)
    lake.land_schema(Schema("stock", (*STOCK.attributes[:1], *STOCK.attributes[2:], Integer("lot", True, 0, 9))))
    schema = lake.schema("stock")
    lake.land_events(EventBatch.from_events(schema, [schema.event(price=0.5, ticker="T", lot=3)]), [NOON], 1, 0.5)
    gone = STOCK.attributes[1].name
    assert maintain(lake, FOR_EVER, LATER).merged == 2 + 2  # events and schemas
    whole = DeltaTable(lake.event_table("stock").url).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row[gone], row["lot"]) for row in whole] == [(1, None), (1, None), (None, 3)]


@pytest.mark.parametrize("damage", ["half", "flipped", "gone", "fewer rows"])
def test_a_damaged_file_is_named_and_stays_and_the_files_around_it_are_merged(lake, damage):
    for number in range(7):
        land(lake, number, NOON + number // 5 * HOUR)
    table = lake.event_table("stock")
    spans = {span.least: file for file, span in table.files_and_spans("landing")}
    damaged = spans[3]
    path = Path(table.url, damaged.path)
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "fewer rows":
        pq.write_table(pq.ParquetFile(path).read().slice(0, 1), path)
    elif damage == "half":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(bytes(each ^ 0x55 if 4 <= place < 200 else each for place, each in enumerate(content)))
    result = maintain(lake, FOR_EVER, LATER)
    assert result.failed == ()
    assert result.merged == 2 + 2 + 2 + 7  # before it, after it, the other hour, and all reports
    assert [(each.table, each.path) for each in lake.refused()] == [("events/stock", damaged.path)]
    assert damaged in table.files()
    assert len(table.files()) == 4
    assert volumes(lake) == sorted([0, 1, 3, 4, 5, 6] * 2)
    assert maintain(lake, FOR_EVER, LATER).merged == 0
    assert len(lake.refused()) == 1


def test_a_damaged_file_of_a_small_table_leaves_the_table_as_it_is(lake):
    for rate in (0.1, 0.2, 0.3):
        lake.land_sampling("stock", rate)
    table = lake.table("schemas")
    file = table.files()[0]
    Path(table.url, file.path).write_bytes(b"PAR1")
    files = table.files()
    assert maintain(lake, FOR_EVER, LATER).merged == 0
    assert table.files() == files
    assert {(each.table, each.path) for each in lake.refused()} == {("schemas", file.path)}


def test_a_table_that_fails_is_named_and_the_others_are_tidied_up(lake, monkeypatch):
    for number in range(4):
        land(lake, number)
    real = lake_table.write_deltalake

    def broken(table, *given, **more):
        if "events" in table.table_uri:
            raise OSError(28, "No space left on device")
        real(table, *given, **more)

    monkeypatch.setattr(lake_table, "write_deltalake", broken)
    result = maintain(lake, FOR_EVER, LATER)
    assert result.merged == 4
    (failed,) = result.failed
    assert failed.table == "events/stock"
    assert "cannot be merged" in failed.reason
    assert "No space left" in failed.reason
    assert "\n" not in failed.reason
    assert [len(table.files()) for table in tables_of(lake)] == [4, 1]


def test_a_schema_that_cannot_be_read_is_named_and_the_others_are_tidied_up(lake):
    table = lake.table("schemas")
    row = {"schema": "odd", "since": NOON, "definition": "{", "rate": None}
    append(table, pa.Table.from_pylist([row], schema=table.definition.schema))
    for number in range(3):
        land(lake, number)
        subscribed(lake, NOON + number * HOUR, f"s{number}")
    result = maintain(lake, FOR_EVER, LATER)
    assert {each.table for each in result.failed} == {"schemas", "subscriptions", "advertisements"}
    assert all("schema odd" in each.reason for each in result.failed)
    assert (result.settled, len(lake.event_table("stock").files())) == (2, 1)


def test_what_fails_in_one_step_does_not_stop_the_next(lake, monkeypatch):
    def broken(*_):
        raise LakeError("is broken", field="here")

    for number in range(3):
        subscribed(lake, NOON + number * HOUR, f"s{number}")
    monkeypatch.setattr(maintenance, "settle", broken)
    result = maintain(lake, FOR_EVER, LATER)
    assert result.failed == tuple(FailedTable(kind, "here: is broken") for kind in REGISTRATION_TABLES)
    assert result.merged == 3 + 2  # begun and ended


def test_rows_that_are_too_old_go_by_the_hour(lake):
    for days in range(4):
        land(lake, days, NOON + days * DAY)
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), NOON - DAY)
    result = maintain(lake, 2, NOON + 3 * DAY + 59 * MINUTE)
    assert (result.expired, result.failed) == (2 + 1, ())
    assert lake.event_hours("stock") == ["2026-11-16T12", "2026-11-17T12", "2026-11-18T12"]  # some of it is kept
    assert sorted(lake.table("reports").rows()["delivered"].to_pylist()) == [1, 2, 3]
    assert maintain(lake, 2, NOON + 3 * DAY + HOUR).expired == 3
    assert lake.event_hours("stock") == ["2026-11-17T12", "2026-11-18T12"]
    assert len(lake.plans("stock")) == 1
    assert lake.schemas() == ["stock"]


def test_old_hours_go_with_the_damaged_files_in_them(lake):
    for number in range(3):
        land(lake, number)
    table = lake.event_table("stock")
    Path(table.url, table.files()[0].path).write_bytes(b"PAR1")
    result = maintain(lake, 1, NOON + 3 * DAY)
    assert result.failed == ()
    assert table.files() == []


def test_subscriptions_that_ended_long_ago_go_and_those_in_force_stay(lake):
    subscribed(lake, NOON, "old", "ended", "in force")
    subscribed(lake, NOON + DAY, "ended", "in force")
    subscribed(lake, NOON + 3 * DAY, "in force")
    assert maintain(lake, 1, NOON + 3 * DAY).settled == 2
    assert [row.id for row, _, _ in lake.subscription_history("stock").entries] == ["ended", "in force"]
    maintain(lake, 1000, NOON + 3 * DAY)
    assert maintain(lake, 1, NOON + 5 * DAY).expired == 1
    maintain(lake, 1, NOON + 5000 * DAY)
    assert [row.id for row in lake.subscriptions("stock")] == ["in force"]


def test_notes_of_damaged_files_go_with_the_rest(lake):
    lake.refuse("events/stock", "a file", LakeError("is damaged"))
    now = datetime.now(UTC)
    assert maintain(lake, 2, now + DAY).expired == 0
    assert maintain(lake, 2, now + 3 * DAY + HOUR).expired == 1
    assert lake.refused() == []
    for _ in range(2):
        lake.refuse("events/stock", "a file", LakeError("is damaged"))  # and still is
    assert [each.path for each in lake.refused()] == ["a file"]


def test_merged_files_stay_for_those_who_read_them_and_go_later(lake):
    for number in range(3):
        land(lake, number)
    table = lake.event_table("stock")
    before = DeltaTable(table.url)
    assert maintain(lake, FOR_EVER, LATER).removed == 0
    assert len(on_disk(table)) == 4
    assert len(before.to_pyarrow_table()) == 6
    result = maintain(lake, FOR_EVER, LATER, kept_hours=0)
    assert result.removed == 3 + 3
    assert [str(path.relative_to(table.url)) for path in on_disk(table)] == [file.path for file in table.files()]
    assert volumes(lake) == sorted([*range(3)] * 2)


def test_files_that_nobody_committed_go_when_nobody_can_be_about_to(lake):
    land(lake, 1)
    table = lake.event_table("stock")
    (file,) = on_disk(table)
    remains = file.with_name("part-of-somebody-who-died.parquet")
    remains.write_bytes(b"PAR1")
    assert maintain(lake, FOR_EVER, LATER).removed == 0
    os.utime(remains, (0, 0))
    assert maintain(lake, FOR_EVER, LATER).removed == 1
    assert on_disk(table) == [file]


def test_the_log_is_short_after_a_while_and_nothing_is_forgotten(lake):
    for number in range(5):
        lake.land_events(
            EventBatch.from_events(STOCK, [STOCK.event(price=0.5, volume=number, ticker="T")]),
            [NOON],
            1,
            1.0,
            BatchId("publisher", number),
        )
    table = lake.event_table("stock")
    entries = Path(table.url, "_delta_log")
    for path in entries.glob("*.json"):
        os.utime(path, (0, 0))
    maintain(lake, FOR_EVER, LATER)
    assert len(list(entries.glob("*.json"))) <= 2
    again = Lake.at(lake.url)
    assert volumes(again) == [*range(5)]
    assert again.event_table("stock").landed("landing") == 5
    assert again.event_table("stock").landed("from publisher") == 4
    names = sorted(os.listdir(entries))
    maintain(lake, FOR_EVER, LATER)
    assert sorted(os.listdir(entries)) == names  # a quiet table gets no new files


def test_an_empty_lake_is_tidy(tmp_path):
    assert maintain(Lake.at(str(tmp_path / "lake")), 1) == MaintenanceResult()
    assert not (tmp_path / "lake").exists()


def test_progress_is_told(lake):
    land(lake, 1)
    steps = []
    maintain(lake, FOR_EVER, LATER, advance=steps.append)
    assert len(steps) == 10
    assert sum(steps) == pytest.approx(1)

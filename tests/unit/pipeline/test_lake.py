"""What was collected is whole or not there, comes back as it went in, and goes when its time is over."""

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.control.client_counters import CLIENT_COUNTER_NAMES
from pleroma.errors import LakeError
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake import lake_layout
from pleroma.pipeline.lake.lake import Lake, ReportRow, SubscriptionRow
from pleroma.pipeline.lake.lake_layout import EventColumns
from support.strategies import STOCK, events, filters, schemas

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ODD = ["a/b", "..", ".", ".hidden", "naïve ☃", "50%", "a=b", "%2F", "x y", "schema=1", "?#&"]


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(STOCK)
    return made


def batch(count, first=0, schema=STOCK):
    numbers = range(first, first + count)
    return EventBatch.from_events(schema, [schema.event(price=float(n), volume=n, ticker=f"T{n}") for n in numbers])


def rows(lake, kind="events", name="stock", **span):
    return [row for file in lake.files(kind, name, **span) for row in lake.table(kind, name, file).to_pylist()]


def everything(lake):
    return sorted(str(path.relative_to(lake.storage.root)) for path in Path(lake.storage.root).rglob("*"))


def subscription(name, text="price > 3"):
    return SubscriptionRow(name, "me", "h1", Filter.parse(STOCK, text))


# -- what goes in comes out ------------------------------------------------------------------------------------------


@given(st.data())
def test_events_come_back_as_they_were(tmp_path_factory, data):
    schema = data.draw(schemas(most=3))
    given_events = data.draw(st.lists(events(schema), min_size=1, max_size=5))
    moments = data.draw(
        st.lists(
            st.datetimes(datetime(1975, 1, 1), datetime(2200, 1, 1)),
            min_size=len(given_events),
            max_size=len(given_events),
        )
    )
    lake = Lake.at(str(tmp_path_factory.mktemp("lake")))
    lake.land_schema(schema)
    lake.land_events(EventBatch.from_events(schema, given_events), moments, 3, 0.25)
    names, found = EventColumns.of(schema), []
    for file in lake.files("events", schema.name):
        table = lake.table("events", schema.name, file)
        ats = table[names.at].to_pylist()
        assert all((at.strftime("%Y-%m-%d"), at.hour) == (file.date, file.hour) for at in ats)
        assert set(table[names.epoch].to_pylist()) == {3}
        assert set(table[names.rate].to_pylist()) == {0.25}
        found += zip(ats, lake.events(schema.name, file), strict=True)
    wanted = [(at.replace(tzinfo=UTC), event) for at, event in zip(moments, given_events, strict=True)]
    key = repr
    assert sorted(found, key=key) == sorted(wanted, key=key)


@given(st.data())
def test_subscriptions_come_back_as_they_were(tmp_path_factory, data):
    schema = data.draw(schemas(most=3))
    wanted = data.draw(st.lists(filters(schema), max_size=4))
    lake = Lake.at(str(tmp_path_factory.mktemp("lake")))
    lake.land_schema(schema)
    given_rows = [SubscriptionRow(f"s{n}", "me", f"h{n}", each) for n, each in enumerate(wanted)]
    lake.land_subscriptions(schema.name, NOON, given_rows)
    assert lake.subscriptions(schema.name).rows == given_rows


def test_ids_are_unique_and_names_grow_whatever_the_clock_says(tmp_path, monkeypatch):
    first = Lake.at(str(tmp_path))
    first.land_schema(STOCK)
    for _ in range(3):
        first.land_events(batch(4), [NOON] * 4, 1, 1.0)
    monkeypatch.setattr("time.time_ns", lambda: 10**18)  # long ago
    second = Lake.at(str(tmp_path))  # the controller after a restart
    second.land_events(batch(4), [NOON - HOUR] * 4, 1, 1.0)
    second.land_events(batch(4), [NOON] * 4, 1, 1.0)
    files = second.files("events", "stock")
    assert [len(second.events("stock", file)) for file in files] == [4] * 5
    assert [file.hour for file in files] == [12, 12, 12, 11, 12]
    ids = [row["id"] for row in rows(second)]
    assert len(set(ids)) == 20
    assert ids == sorted(ids)


def test_events_are_in_the_hour_they_happened_in(lake):
    at = np.array(["2026-11-15T12:00", "2026-11-15T13:59:59.999999", "2026-11-14T00:00"], "datetime64[us]")
    lake.land_events(batch(3), at, 1, 0.5)
    assert {(file.date, file.hour, file.size > 0) for file in lake.files("events", "stock")} == {
        ("2026-11-15", 12, True),
        ("2026-11-15", 13, True),
        ("2026-11-14", 0, True),
    }
    assert [row["volume"] for row in rows(lake, start=NOON + HOUR)] == [1]
    assert [row["volume"] for row in rows(lake, end=NOON)] == [2]
    assert [row["volume"] for row in rows(lake, start=NOON + HOUR / 2, end=NOON + HOUR)] == [0]
    assert [row["volume"] for row in rows(lake, start=NOON.replace(tzinfo=None), end=NOON + HOUR)] == [0]


def test_many_events_become_parts_that_can_be_read_at_once(lake, monkeypatch):
    monkeypatch.setattr(lake_layout, "MAX_PART_ROWS", 10)
    lake.land_events(batch(25), [NOON] * 25, 1, 1.0)
    assert [len(lake.events("stock", file)) for file in lake.files("events", "stock")] == [10, 10, 5]
    assert len({row["id"] for row in rows(lake)}) == 25


def test_each_event_needs_its_moment(lake):
    for wrong in ([NOON], [NOON] * 3, np.array(["NaT", "NaT"], "datetime64[us]")):
        with pytest.raises(LakeError) as caught:
            lake.land_events(batch(2), wrong, 1, 1.0)
        assert caught.value.field == "at"
    assert lake.files("events", "stock") == []


def test_reports_come_back_with_all_counters(lake):
    lake.land_reports("stock", NOON, [ReportRow("s1", "me", 5, 4, 3, 2), ReportRow("s2", "you", wasted=1)])
    lake.land_reports("stock", [NOON, NOON + HOUR], [ReportRow("s1", "me", 1), ReportRow("s1", "me", 2)])
    assert [tuple(row.values()) for row in rows(lake, "reports")] == [
        (NOON, "s1", "me", 5, 4, 3, 2),
        (NOON, "s2", "you", 0, 1, 0, 0),
        (NOON, "s1", "me", 1, 0, 0, 0),
        (NOON + HOUR, "s1", "me", 2, 0, 0, 0),
    ]
    assert lake_layout.REPORT_COUNTERS == CLIENT_COUNTER_NAMES


def test_plans_are_kept_with_their_time(lake):
    plans = [IndexPlan(epoch, GridIndex.regular(STOCK, epoch)) for epoch in (1, 2, 12)]
    for plan in reversed(plans):
        lake.land_plan(plan, None if plan.epoch == 1 else 32, NOON + plan.epoch * HOUR)
    lake.land_plan(plans[0], 8, NOON + DAY)  # after a restart: it stays as it is
    found = lake.plans("stock")
    assert [(each.epoch, each.since, each.members) for each in found] == [
        (1, NOON + HOUR, None),
        (2, NOON + 2 * HOUR, 32),
        (12, NOON + 12 * HOUR, 32),
    ]
    assert [each.plan.checksum for each in found] == [plan.checksum for plan in plans]


def test_another_plan_of_the_same_epoch_is_refused(lake):
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), 8, NOON)
    with pytest.raises(LakeError, match="another plan 1") as caught:
        lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 4)), 8, NOON)
    assert (caught.value.field, caught.value.value) == ("epoch", 1)


def test_another_schema_of_the_same_name_is_refused(lake):
    lake.land_schema(STOCK)
    with pytest.raises(LakeError, match="another schema"):
        lake.land_schema(Schema("stock", (Integer("x", False, 0, 1),)))
    assert lake.schema("stock") == STOCK


def test_a_schema_that_is_not_there_is_named(lake, tmp_path):
    with pytest.raises(LakeError, match="did you mean 'stock'"):
        lake.schema("stok")
    with pytest.raises(LakeError, match="no lake here"):
        Lake.at(str(tmp_path / "nowhere")).schema("stock")
    assert Lake.at(str(tmp_path / "nowhere")).schemas() == []
    assert Lake.at(str(tmp_path / "nowhere")).files("events", "stock") == []


def test_rates_are_those_chosen_last(lake):
    assert lake.sampling("stock") is None
    for rate in (0.5, 0.0):
        lake.land_sampling("stock", rate)
        assert lake.sampling("stock") == rate


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD)
def test_odd_names_stay_inside_the_lake(tmp_path, name):
    lake = Lake.at(str(tmp_path / "in" / "lake"))
    schema = Schema(name, (Real("price", False, 0.0, 9.0),))
    lake.land_schema(schema)
    lake.land_events(EventBatch.from_columns(schema, {"price": [1.0]}), [NOON], 1, 1.0)
    lake.land_plan(IndexPlan(1, GridIndex.regular(schema, 2)), 8, NOON)
    lake.land_subscriptions(name, NOON, [])
    lake.land_sampling(name, 0.5)
    assert lake.schemas() == [name]
    assert lake.schema(name) == schema
    assert [row["price"] for row in rows(lake, name=name)] == [1.0]
    assert len(lake.plans(name)) == 1
    assert lake.subscriptions(name).rows == []
    assert os.listdir(tmp_path) == ["in"]
    assert os.listdir(tmp_path / "in") == ["lake"]


def test_odd_names_are_different_names(tmp_path):
    lake = Lake.at(str(tmp_path))
    for name in ODD:
        lake.land_schema(Schema(name, (Text("x", False),)))
    assert lake.schemas() == sorted(ODD)


def test_attributes_keep_their_names_when_the_lake_has_columns_of_that_name(tmp_path):
    schema = Schema("odd", (Integer("id", False, 0, 9), Real("AT", False, 0.0, 9.0), Text("_id", False)))
    assert EventColumns.of(schema) == ("__id", "_at", "epoch", "rate")
    lake = Lake.at(str(tmp_path))
    lake.land_schema(schema)
    given_batch = EventBatch.from_columns(schema, {"id": [7], "AT": [1.5], "_id": ["x"]})
    lake.land_events(given_batch, [NOON], 1, 1.0)
    (row,) = rows(lake, name="odd")
    assert (row["id"], row["AT"], row["_id"], row["_at"]) == (7, 1.5, "x", NOON)
    assert lake.events("odd", *lake.files("events", "odd")) == given_batch


@pytest.mark.parametrize("form", ["{0}/a lake", "file://{0}/lake", "file://{0}/a%20lake", "{0}/deep/er/lake/"])
def test_a_lake_may_be_a_folder_or_a_uri(tmp_path, form):
    lake = Lake.at(form.format(tmp_path))
    lake.land_schema(STOCK)
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    assert len(rows(Lake.at(form.format(tmp_path)))) == 2
    assert Path(lake.files("events", "stock")[0].path).is_relative_to(tmp_path)


def test_a_folder_is_meant_from_where_the_program_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lake = Lake.at("lake")
    lake.land_schema(STOCK)
    assert (tmp_path / "lake" / "schemas" / "stock.json").is_file()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # as a worker of Spark, which is told the address
    assert Lake.at(lake.url).schemas() == ["stock"]


@pytest.mark.parametrize("wrong", ["", "nothing://at/all", "file://relative"])
def test_what_is_no_place_is_refused(wrong):
    with pytest.raises(LakeError) as caught:
        Lake.at(wrong)
    assert caught.value.field == "lake"


# -- whole or not there ----------------------------------------------------------------------------------------------


def test_a_reader_never_sees_half_a_file(lake):
    over, seen = threading.Event(), [0]
    reader_lake = Lake.at(lake.url)
    failures = []

    def read():
        while True:
            last = over.is_set()
            try:
                found = sum(len(reader_lake.events("stock", file)) for file in reader_lake.files("events", "stock"))
                if reader_lake.snapshots("stock"):
                    reader_lake.subscriptions("stock")
            except Exception as error:
                failures.append(error)
                return
            seen.append(found)
            if last:
                return

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(40):
        lake.land_events(batch(50, n), [NOON] * 50, 1, 1.0)
        lake.land_subscriptions("stock", NOON + n * HOUR, [subscription("s1")])
    over.set()
    thread.join(60)
    assert failures == []
    assert all(count % 50 == 0 for count in seen)
    assert seen == sorted(seen)
    assert seen[-1] == 2000


def test_a_writer_that_dies_leaves_nothing_to_be_seen(lake, monkeypatch):
    def half(_, path, **__):
        with open(path, "wb") as file:
            file.write(b"PAR1 and then")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(LakeError, match=r"cannot be written: .*No space"):
        lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    with pytest.raises(LakeError):
        lake.land_subscriptions("stock", NOON, [])
    assert lake.files("events", "stock") == []
    assert lake.snapshots("stock") == []
    assert not [path for path in everything(lake) if "PAR1" in path or path.endswith("unfinished")]


def test_contents_are_on_the_disk_before_the_name_is_there(lake, monkeypatch):
    """What a loss of power leaves cannot be tried here: that nothing has its name when it is written out can."""
    synced = []

    def sync(descriptor):
        synced.append((os.fstat(descriptor).st_ino, lake.files("events", "stock"), lake.plans("stock")))

    monkeypatch.setattr(os, "fsync", sync)
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), 8, NOON)
    (file,) = lake.files("events", "stock")
    plan = Path(lake.storage.root) / lake_layout.plan_path("stock", 1)
    assert synced == [(Path(file.path).stat().st_ino, [], []), (plan.stat().st_ino, [file], [])]


def test_a_killed_writers_remains_are_not_seen_and_go_after_a_while(lake):
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    (file,) = lake.files("events", "stock")
    remains = Path(file.path).with_name(f".{file.key}.unfinished")
    remains.write_bytes(b"PAR1")
    assert lake.files("events", "stock") == [file]
    assert lake.expire(NOON - DAY) == 0  # somebody may still be writing it
    os.utime(remains, (0, 0))
    assert lake.expire(NOON - DAY) == 1
    assert not remains.exists()
    assert Path(file.path).exists()


@pytest.mark.parametrize("kind", ["sampling", "windows/schema=stock", "decisions/schema=stock"])
def test_remains_go_wherever_they_are(lake, kind):
    remains = Path(lake.storage.root) / kind / ".x.json.unfinished"
    remains.parent.mkdir(parents=True)
    remains.write_text("{")
    os.utime(remains, (0, 0))
    assert lake.expire(NOON - DAY) == 1
    assert not remains.exists()


def test_what_a_killed_pass_left_in_scratch_goes_with_what_is_not_kept(lake):
    scratch = Path(lake.storage.root) / "scratch"
    scratch.mkdir()
    for name, at in (("old", NOON - DAY), ("new", NOON + DAY)):
        (scratch / f".boxes-{name}.parquet").write_bytes(b"PAR1")
        os.utime(scratch / f".boxes-{name}.parquet", (at.timestamp(), at.timestamp()))
    assert lake.expire(NOON) == 1
    assert [path.name for path in scratch.iterdir()] == [".boxes-new.parquet"]


def test_files_that_nobody_landed_are_left_alone(lake):
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    (file,) = lake.files("events", "stock")
    for name in ("notes.txt", "part-1.parquet", "_SUCCESS", ".crc"):
        Path(file.path).with_name(name).write_text("?")
    assert lake.files("events", "stock") == [file]
    lake.expire(NOON + DAY)
    assert Path(file.path).with_name("notes.txt").exists()


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "flipped", "gone"])
def test_a_damaged_file_is_refused_by_name(lake, damage):
    lake.land_events(batch(200), [NOON] * 200, 1, 1.0)
    (file,) = lake.files("events", "stock")
    path = Path(file.path)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        for position in range(40, 80):  # in the first page's data
            content[position] ^= 0x55
    changed = {"empty": b"", "half": content[: len(content) // 2], "garbage": b"x" * 500, "flipped": content}
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(changed[damage]))
    with pytest.raises(LakeError) as caught:
        lake.events("stock", file)
    assert caught.value.field == file.path
    assert "\n" not in str(caught.value)


def test_a_file_of_another_schema_is_refused(lake, tmp_path):
    other = Lake.at(str(tmp_path / "other"))
    twin = Schema("stock", (*STOCK.attributes[:-1], Real("new", True, 0.0, 1.0)))
    other.land_schema(twin)
    other.land_events(batch(3, schema=twin), [NOON] * 3, 1, 1.0)
    (theirs,) = other.files("events", "stock")
    lake.land_events(batch(3), [NOON] * 3, 1, 1.0)
    (ours,) = lake.files("events", "stock")
    Path(ours.path).write_bytes(Path(theirs.path).read_bytes())
    with pytest.raises(LakeError, match="of another schema"):
        lake.events("stock", ours)
    pq.write_table(pq.read_table(ours.path).replace_schema_metadata(None), ours.path)
    with pytest.raises(LakeError, match="of another schema: it says none"):
        lake.events("stock", ours)


def test_a_file_with_other_columns_is_refused(lake):
    lake.land_events(batch(3), [NOON] * 3, 1, 1.0)
    (file,) = lake.files("events", "stock")
    pq.write_table(pq.ParquetFile(file.path).read().drop_columns(["price"]), file.path)
    with pytest.raises(LakeError, match="other columns"):
        lake.table("events", "stock", file)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 3}', "\x00"])
def test_damaged_schemas_and_plans_are_refused_by_name(lake, text):
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), 8, NOON)
    root = Path(lake.storage.root)
    (root / "plans/schema=stock/epoch-00000001.json").write_text(text)
    with pytest.raises(LakeError, match="epoch-00000001"):
        lake.plans("stock")
    (root / "schemas/stock.json").write_text(text)
    with pytest.raises(LakeError, match=r"stock\.json"):
        lake.schema("stock")


# -- validity and retention ------------------------------------------------------------------------------------------


def test_a_snapshot_is_valid_until_the_next(lake):
    for hours in (2, 0, 1):
        lake.land_subscriptions("stock", NOON + hours * HOUR, [subscription(f"s{n}") for n in range(hours)])
    found = [lake.subscriptions("stock", at) for at in (NOON, NOON + HOUR - HOUR / 3600, NOON + HOUR, NOON + DAY)]
    assert [(each.since, each.until, len(each.rows)) for each in found] == [
        (NOON, NOON + HOUR, 0),
        (NOON, NOON + HOUR, 0),
        (NOON + HOUR, NOON + 2 * HOUR, 1),
        (NOON + 2 * HOUR, None, 2),
    ]
    assert lake.subscriptions("stock") == found[-1]
    met = lake.snapshots("stock", start=NOON + HOUR, end=NOON + 2 * HOUR)
    assert [each.since for each in met] == [NOON + HOUR]


def test_before_the_first_snapshot_there_is_none(lake):
    with pytest.raises(LakeError, match="no snapshot"):
        lake.subscriptions("stock")
    lake.land_subscriptions("stock", NOON, [])
    with pytest.raises(LakeError, match="no snapshot of the subscriptions of 2026-11-15T11:00"):
        lake.subscriptions("stock", NOON - HOUR)


def test_filters_may_be_landed_as_their_json(lake):
    lake.land_subscriptions("stock", NOON, [("s1", "me", "h1", '[{"price": {"<": 5}}]')])
    assert [str(row.filter) for row in lake.subscriptions("stock").rows] == ["price < 5"]
    lake.land_subscriptions("stock", NOON + HOUR, [("s1", "me", "h1", '[{"colour": {"<": 5}}]')])
    with pytest.raises(LakeError, match="colour"):
        lake.subscriptions("stock")


def test_what_is_too_old_goes_and_its_folders_too(lake):
    for days in range(4):
        lake.land_events(batch(1), [NOON + days * DAY], 1, 1.0)
        lake.land_reports("stock", NOON + days * DAY, [ReportRow("s1", "me")])
        lake.land_subscriptions("stock", NOON + days * DAY, [])
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), 8, NOON - DAY)
    # of the second day's last hour nothing is past yet; the snapshot of the second day was valid all that day
    assert lake.expire(NOON + 2 * DAY) == 2 + 2 + 2
    assert [file.date for file in lake.files("events", "stock")] == ["2026-11-17", "2026-11-18"]
    assert [file.date for file in lake.files("reports", "stock")] == ["2026-11-17", "2026-11-18"]
    assert lake.subscriptions("stock", NOON + 2 * DAY).since == NOON + 2 * DAY
    assert not [path for path in everything(lake) if "2026-11-15" in path]
    assert len(lake.plans("stock")) == 1
    assert lake.expire(NOON + 2 * DAY) == 0


def test_the_last_snapshot_stays_however_old(lake):
    lake.land_subscriptions("stock", NOON, [subscription("s1")])
    assert lake.expire(NOON + 1000 * DAY) == 0
    assert len(lake.subscriptions("stock", NOON + 1000 * DAY).rows) == 1

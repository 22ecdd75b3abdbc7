"""What was collected comes back as it went in, under whatever names, and what is damaged is named and left out."""

import os
import resource
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.control.client_counters import CLIENT_COUNTER_NAMES
from pleroma.errors import DamagedFile, LakeError
from pleroma.index import MAX_MEMBERS, GridIndex, IndexPlan
from pleroma.pipeline.lake import event_rows
from pleroma.pipeline.lake.event_rows import events_landing
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns, event_table
from pleroma.pipeline.lake.landed import (
    REPORT_COUNTERS,
    BatchId,
    RegistrationRow,
    ReportedCounters,
    ReportRow,
    SampledEvents,
)
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.store import file_system
from pleroma.routing.shapes import line
from support.old_plans import without_members
from support.strategies import STOCK, events, filters, schemas
from support.table_rows import append

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ODD = [
    "a/b",
    "..",
    ".",
    ".hidden",
    "_log",
    "naïve ☃",
    "50%",
    "a=b",
    "%2F",
    "x y",
    "schema=1",
    "?#&",
    "it's",
    'say "no"',
]


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(STOCK, NOON)
    return made


def batch(count, first=0, schema=STOCK):
    numbers = range(first, first + count)
    return EventBatch.from_events(schema, [schema.event(price=float(n), volume=n, ticker=f"T{n}") for n in numbers])


def rows(lake, name="stock"):
    return sorted(lake.event_table(name).rows().to_pylist(), key=lambda row: row[id_column(lake, name)])


def id_column(lake, name):
    return EventColumns.of(lake.schema(name)).id


def volumes(lake, **span):
    return lake.events("stock", **span).columns[STOCK.names.index("volume")].tolist()


def subscription(name, text="price > 3"):
    return RegistrationRow(name, "me", "h1", Filter.parse(STOCK, text))


@settings(max_examples=30)
@given(st.data())
def test_events_come_back_as_they_were(tmp_path_factory, data):
    schema = data.draw(schemas(most=3))
    given_events = data.draw(st.lists(events(schema), min_size=1, max_size=5))
    days = st.datetimes(datetime(1975, 1, 1), datetime(2200, 1, 1))
    moments = data.draw(st.lists(days, min_size=len(given_events), max_size=len(given_events)))
    lake = Lake.at(str(tmp_path_factory.mktemp("lake")))
    lake.land_schema(schema)
    assert lake.land_events(EventBatch.from_events(schema, given_events), moments, 3, 0.25) == len(given_events)
    names, found = EventColumns.of(schema), rows(lake, schema.name)
    assert [row[names.at] for row in found] == [at.replace(tzinfo=UTC) for at in moments]
    assert [row[names.hour] for row in found] == [at.strftime("%Y-%m-%dT%H") for at in moments]
    assert {(row[names.landing], row[names.epoch], row[names.rate]) for row in found} == {(1, 3, 0.25)}
    assert list(lake.events(schema.name)) == given_events


@settings(max_examples=30)
@given(st.data())
def test_subscriptions_come_back_as_they_were(tmp_path_factory, data):
    schema = data.draw(schemas(most=3))
    wanted = data.draw(st.lists(filters(schema), max_size=4))
    lake = Lake.at(str(tmp_path_factory.mktemp("lake")))
    lake.land_schema(schema)
    given_rows = [RegistrationRow(f"s{n}", "me", f"h{n}", each) for n, each in enumerate(wanted)]
    assert lake.land_subscriptions(schema.name, NOON, given_rows) == len(given_rows)
    assert lake.subscriptions(schema.name) == given_rows


def test_the_boxes_of_a_filter_are_columns_that_anybody_can_read(lake):
    lake.land_subscriptions("stock", NOON, [subscription("s1", "price >= 50 and volume < 30 or volume = 40")])
    (row,) = lake.table("subscriptions").rows().to_pylist()
    found = [{each["attribute"]: (each["low"], each["high"]) for each in box} for box in row["boxes"]]
    assert sorted(found, key=len) == [{"volume": (40.0, 40.0)}, {"price": (50.0, 1000.0), "volume": (0.0, 29.0)}]


def test_every_event_has_an_id_of_its_own_and_every_landing_the_next_number(lake):
    for count in (4, 3):
        lake.land_events(batch(count), [NOON] * count, 1, 1.0)
    Lake.at(lake.url).land_events(batch(2), [NOON - HOUR] * 2, 1, 1.0)  # the controller after a restart
    found = rows(lake)
    assert len({row["id"] for row in found}) == 9
    assert [row["landing"] for row in found] == [1] * 4 + [2] * 3 + [3] * 2
    assert lake.event_table("stock").landed("landing") == 3


def test_events_are_read_by_the_time_they_happened(lake):
    at = np.array(["2026-11-15T12:00", "2026-11-15T13:59:59.999999", "2026-11-14T00:00"], "datetime64[us]")
    lake.land_events(batch(3), at, 1, 0.5)
    assert lake.event_hours("stock") == ["2026-11-14T00", "2026-11-15T12", "2026-11-15T13"]
    assert volumes(lake, start=NOON + HOUR) == [1]
    assert volumes(lake, end=NOON) == [2]
    assert volumes(lake, start=NOON, end=NOON + HOUR) == [0]
    assert volumes(lake, start=NOON.replace(tzinfo=None), end=NOON + HOUR) == [0]
    assert volumes(lake, start=NOON + timedelta(microseconds=1), end=NOON + HOUR) == []


def test_more_events_than_a_landing_has_ids_for_are_refused(lake, monkeypatch):
    monkeypatch.setattr(event_rows, "MAX_LANDING_ROWS", 10)
    assert lake.land_events(batch(10), [NOON] * 10, 1, 1.0) == 10
    with pytest.raises(LakeError, match="at most 10 events"):
        lake.land_events(batch(11), [NOON] * 11, 1, 1.0)
    assert len(lake.events("stock")) == 10


def test_each_event_needs_its_moment(lake):
    for wrong in ([NOON], [NOON] * 3, np.array(["NaT", "NaT"], "datetime64[us]")):
        with pytest.raises(LakeError) as caught:
            lake.land_events(batch(2), wrong, 1, 1.0)
        assert caught.value.field == "at"
    assert lake.event_table("stock").files() == []


def test_no_events_are_no_landing(lake):
    assert lake.land_events(batch(0), [], 1, 1.0) == 0
    assert lake.land_reports([ReportedCounters("stock", NOON, (), BatchId("me", 1))]) == 0
    assert lake.table("reports").files() == []


def test_reports_come_back_with_all_counters(lake):
    reported = [
        ReportedCounters("stock", NOON, (ReportRow("s1", "me", 5, 1, 4, 3, 2), ReportRow("s2", "you", wasted=1))),
        ReportedCounters("stock", NOON + HOUR, (ReportRow("s1", "me", 2),)),
    ]
    assert lake.land_reports(reported) == 3
    found = sorted(tuple(row.values()) for row in lake.table("reports").rows().to_pylist())
    assert found == [
        ("stock", "2026-11-15T12", 1, NOON, "s1", "me", 5, 1, 4, 3, 2),
        ("stock", "2026-11-15T12", 1, NOON, "s2", "you", 0, 0, 1, 0, 0),
        ("stock", "2026-11-15T13", 1, NOON + HOUR, "s1", "me", 2, 0, 0, 0, 0),
    ]
    assert (*REPORT_COUNTERS, "forged", "missed") == CLIENT_COUNTER_NAMES  # which say nothing about subscriptions


def test_plans_are_kept_with_their_time(lake):
    plans = [IndexPlan(epoch, GridIndex.regular(STOCK, epoch), 16 * epoch) for epoch in (1, 2, 12)]
    for plan in plans:
        lake.land_plan(plan, NOON + plan.epoch * HOUR)
    lake.land_plan(plans[0], NOON + DAY)  # after a restart: it stays as it is
    found = lake.plans("stock")
    assert [(each.epoch, each.since, each.members) for each in found] == [
        (1, NOON + HOUR, 16),
        (2, NOON + 2 * HOUR, 32),
        (12, NOON + 12 * HOUR, 192),
    ]
    assert [each.plan.checksum for each in found] == [plan.checksum for plan in plans]
    assert lake.plan("stock", 2) == found[1]
    assert lake.plan("stock", 3) is None
    assert lake.plan("other", 2) is None


def test_plans_of_earlier_versions_have_the_limit_that_was_landed_beside_them(lake):
    plans = [IndexPlan(epoch, GridIndex.regular(STOCK, 3)) for epoch in (1, 2)]
    limits = [32, None]
    rows = {"schema": ["stock"] * 2, "epoch": [1, 2], "since": [NOON, NOON + HOUR], "members": limits}
    rows["plan"] = [without_members(plan) for plan in plans]
    kinds = lake.table("plans").definition.schema
    append(lake.table("plans"), pa.table({name: pa.array(rows[name], kinds.field(name).type) for name in kinds.names}))
    assert [each.members for each in lake.plans("stock")] == [32, MAX_MEMBERS]
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3), 32), NOON + DAY)  # as a later version lands it again
    assert [each.since for each in lake.plans("stock")] == [NOON, NOON + HOUR]
    with pytest.raises(LakeError, match="another plan 1"):
        lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3), 16), NOON + DAY)


def test_another_plan_of_the_same_epoch_is_refused(lake):
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), NOON)
    with pytest.raises(LakeError, match="another plan 1") as caught:
        lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 4)), NOON)
    assert (caught.value.field, caught.value.value) == ("epoch", 1)


def test_a_schema_that_is_not_there_is_named(lake, tmp_path):
    with pytest.raises(LakeError, match="did you mean 'stock'"):
        lake.schema("stok")
    with pytest.raises(LakeError, match="did you mean 'stock'"):
        lake.land_sampling("stok", 0.5)
    nowhere = Lake.at(str(tmp_path / "nowhere"))
    with pytest.raises(LakeError, match="no lake here"):
        nowhere.schema("stock")
    assert nowhere.schemas() == []
    assert not (tmp_path / "nowhere").exists()  # whoever only reads makes nothing


def test_which_schema_is_asked_where_there_are_several(lake):
    assert lake.chosen(None) == lake.chosen("stock") == "stock"
    lake.land_schema(Schema("other", (Text("x", False),)))
    with pytest.raises(LakeError, match=r"which schema.* other, stock"):
        lake.chosen(None)


def test_rates_are_those_chosen_last_and_the_schema_stays(lake):
    assert lake.sampling("stock") is None
    for rate in (0.5, 0.0):
        lake.land_sampling("stock", rate)
        assert Lake.at(lake.url).sampling("stock") == rate
    assert lake.schema("stock") == STOCK
    assert lake.known_since("stock") == NOON


def test_the_network_is_landed_when_it_changes(lake):
    small, large = line(2), line(3)
    assert lake.topology() is None
    assert lake.land_topology(small, {"R1": 100}, NOON, 7)
    assert not lake.land_topology(small, {"R1": 100}, NOON + HOUR, 8)
    assert lake.land_topology(small, {"R1": 90}, NOON + HOUR, 9)
    assert lake.land_topology(large, {"R1": 90}, NOON + 2 * HOUR, 10)
    assert lake.topology(NOON - HOUR) is None
    assert lake.topology(NOON) == (NOON, small, {"R1": 100})
    assert lake.topology(NOON + HOUR) == (NOON + HOUR, small, {"R1": 90})
    assert lake.topology() == (NOON + 2 * HOUR, large, {"R1": 90})


@pytest.mark.parametrize("name", ODD)
def test_odd_names_stay_inside_the_lake(tmp_path, name):
    lake = Lake.at(str(tmp_path / "in" / "lake"))
    schema = Schema(name, (Real("price", False, 0.0, 9.0),))
    lake.land_schema(schema)
    lake.land_events(EventBatch.from_columns(schema, {"price": [1.0]}), [NOON], 1, 1.0)
    lake.land_plan(IndexPlan(1, GridIndex.regular(schema, 2)), NOON)
    lake.land_reports([ReportedCounters(name, NOON, (ReportRow("s1", "me", 1),))])
    lake.land_subscriptions(name, NOON, [RegistrationRow("s1", "me", "h1", Filter.parse(schema, "price > 3"))])
    lake.land_sampling(name, 0.5)
    again = Lake.at(lake.url)
    assert again.schemas() == [name]
    assert again.schema(name) == schema
    assert [row["price"] for row in rows(again, name)] == [1.0]
    assert [each.epoch for each in again.plans(name)] == [1]
    assert [each.id for each in again.subscriptions(name)] == ["s1"]
    assert [row["schema"] for row in again.table("reports").rows().to_pylist()] == [name]
    assert os.listdir(tmp_path) == ["in"]
    assert os.listdir(tmp_path / "in") == ["lake"]
    assert not [each for each in (tmp_path / "in/lake/events").iterdir() if each.name[0] in "._"]


def test_odd_names_are_different_names(tmp_path):
    lake = Lake.at(str(tmp_path))
    for name in ODD:
        lake.land_schema(Schema(name, (Text("x", False),)))
    assert lake.schemas() == sorted(ODD)
    assert len({lake.event_table(name).url for name in ODD}) == len(ODD)


def test_attributes_keep_their_names_when_the_lake_has_columns_of_that_name(tmp_path):
    attributes = (Integer("id", False, 0, 9), Real("AT", False, 0.0, 9.0), Text("_id", False), Text("Hour", False))
    schema = Schema("odd", (*attributes, Integer("landing", False, 0, 9)))
    assert EventColumns.of(schema) == ("_hour", "_landing", "__id", "_at", "epoch", "rate", "principal")
    lake = Lake.at(str(tmp_path))
    lake.land_schema(schema)
    columns = {"id": [7], "AT": [1.5], "_id": ["x"], "Hour": ["late"], "landing": [3]}
    given_batch = EventBatch.from_columns(schema, columns)
    lake.land_events(given_batch, [NOON], 1, 1.0)
    (row,) = rows(lake, "odd")
    assert (row["id"], row["AT"], row["_id"], row["_at"]) == (7, 1.5, "x", NOON)
    assert (row["Hour"], row["_hour"], row["landing"], row["_landing"]) == ("late", "2026-11-15T12", 3, 1)
    assert lake.events("odd") == given_batch
    assert lake.event_hours("odd") == ["2026-11-15T12"]


def test_a_table_from_before_senders_were_noted_is_read_landed_in_and_merged(lake):
    made, at = event_table(STOCK), np.full(2, np.datetime64("2026-11-15T12:30", "us"))
    before = replace(made, columns=tuple(each for each in made.columns if each.name != "principal"))
    LakeTable(lake.url, before).land(events_landing(STOCK, [SampledEvents(batch(2), at, 1, 0.5)]))
    assert [row["principal"] for row in rows(lake)] == [None, None]
    lake.land_samples([SampledEvents(batch(2), at, 1, 0.5, principal="ann")])
    for merged in (0, 2):
        assert [row["principal"] for row in rows(lake)] == [None, None, "ann", "ann"]
        assert maintain(lake, 10**5).merged == 2 - merged


def test_attributes_may_differ_by_large_letters_alone(tmp_path):
    schema = Schema("odd", (Integer("x", False, 0, 9), Integer("X", False, 0, 9), Integer("_X", False, 0, 9)))
    assert attribute_columns(schema) == {"x": "x", "X": "_X", "_X": "__X"}
    lake = Lake.at(str(tmp_path))
    lake.land_schema(schema)
    given_batch = EventBatch.from_columns(schema, {"x": [1], "X": [2], "_X": [3]})
    lake.land_events(given_batch, [NOON], 1, 1.0)
    assert lake.events("odd") == given_batch


def test_a_new_attribute_is_null_in_old_rows(lake):
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    wider = Schema("stock", (*STOCK.attributes, Integer("lot", True, 0, 9)))
    lake.land_schema(wider, NOON + HOUR)
    events_of = EventBatch.from_events(wider, [wider.event(price=1.0, volume=9, ticker="T", lot=5)])
    lake.land_events(events_of, [NOON], 1, 1.0)
    again = Lake.at(lake.url)
    assert again.schema("stock") == wider
    assert again.known_since("stock") == NOON
    assert [row["lot"] for row in rows(again)] == [None, None, 5]
    assert list(again.events("stock"))[2] == wider.event(price=1.0, volume=9, ticker="T", lot=5)


def test_an_attribute_of_another_type_is_refused_in_one_line(lake):
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    with pytest.raises(LakeError, match="another type for volume") as caught:
        lake.land_schema(Schema("stock", (Text("volume", False),)))
    assert "\n" not in str(caught.value)
    assert lake.schema("stock") == STOCK
    assert len(lake.events("stock")) == 2


def test_an_attribute_that_went_does_not_come_back_as_another_type(lake):
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    lake.land_schema(Schema("stock", STOCK.attributes[:1]))
    with pytest.raises(LakeError, match="another type for volume"):
        lake.land_schema(Schema("stock", (STOCK.attributes[0], Text("volume", False))))


@pytest.mark.parametrize(
    "new",
    [
        Integer("id", True, 0, 9),
        Integer("Landing", True, 0, 9),
        Real("rate", True, 0, 9),
        Integer("VOLUME", True, 0, 9),
    ],
)
def test_an_attribute_does_not_take_the_place_of_a_column_with_something_else(lake, new):
    """Of the rows before, its values would be the numbers of events, or those of another attribute."""
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    with pytest.raises(LakeError, match=r"the lake has a column .* for something else|another type for"):
        lake.land_schema(Schema("stock", (new, *STOCK.attributes)))
    assert lake.schema("stock") == STOCK
    lake.land_events(batch(1), [NOON], 1, 1.0)
    assert len(lake.events("stock")) == 3


def test_events_of_a_schema_that_was_replaced_are_refused_in_one_line(lake):
    other = Schema("stock", (*STOCK.attributes[:1], Integer("lot", True, 0, 9)))
    late = SampledEvents(batch(1), np.array([NOON.replace(tzinfo=None)], "datetime64[us]"), 1, 1.0)
    new = late._replace(events=EventBatch.from_events(other, [other.event(price=1.0)]))
    lake.land_schema(other, NOON + HOUR)
    for samples in ([late], [new, late], [late, new]):
        with pytest.raises(LakeError, match="events are of another schema of this name"):
            lake.land_samples(samples)
    assert lake.land_samples([new]) == 1


def test_events_that_waited_while_a_later_version_came_are_landed_as_events_of_that(lake):
    wider = Schema("stock", (*STOCK.attributes, Integer("lot", True, 0, 9)))
    late = SampledEvents(batch(1), np.array([NOON.replace(tzinfo=None)], "datetime64[us]"), 1, 1.0)
    new = late._replace(events=EventBatch.from_events(wider, [wider.event(price=1.0, volume=9, ticker="T", lot=5)]))
    lake.land_schema(wider, NOON + HOUR)
    assert lake.land_samples([late, new]) == 2
    assert sorted(row["lot"] is None for row in rows(lake)) == [False, True]


def test_the_first_and_the_last_moment_there_is_may_be_asked_for(lake):
    first, last = (each.replace(tzinfo=UTC) for each in (datetime.min, datetime.max))
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    lake.land_subscriptions("stock", NOON, [("s1", "me", "h1", "[{}]")])
    assert len(lake.events("stock", first, last)) == 2
    assert [each.row.id for each in lake.subscription_history("stock", first, last).entries] == ["s1"]
    assert [len(lake.subscriptions("stock", each)) for each in (first, NOON, last)] == [0, 1, 1]


@pytest.mark.parametrize("form", ["{0}/a lake", "file://{0}/lake", "{0}/deep/er/lake/", "{0}/50%/lake"])
def test_a_lake_may_be_a_folder_or_a_uri(tmp_path, form):
    lake = Lake.at(form.format(tmp_path))
    lake.land_schema(STOCK)
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    assert len(rows(Lake.at(form.format(tmp_path)))) == 2
    assert Path(lake.event_table("stock").url).is_relative_to(tmp_path)


def test_a_folder_is_meant_from_where_the_program_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lake = Lake.at("lake")
    lake.land_schema(STOCK)
    assert (tmp_path / "lake" / "schemas" / "_delta_log").is_dir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # as a worker of Spark, which is told the address
    assert Lake.at(lake.url).schemas() == ["stock"]


@pytest.mark.parametrize("wrong", ["", "nothing://at/all"])
def test_what_is_no_place_is_refused(wrong):
    with pytest.raises(LakeError) as caught:
        Lake.at(wrong)
    assert caught.value.field == "lake"


def test_a_folder_with_files_of_something_else_is_no_place_for_a_table(tmp_path):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "stock.json").write_text("{}")
    with pytest.raises(LakeError, match="pleroma pipeline migrate"):
        Lake.at(str(tmp_path)).check()
    assert os.listdir(tmp_path / "schemas") == ["stock.json"]


def test_a_reader_sees_whole_landings(lake):
    over, seen, failures = threading.Event(), [0], []
    reader_lake = Lake.at(lake.url)

    def read():
        while True:
            last = over.is_set()
            try:
                seen.append(len(reader_lake.events("stock")))
                reader_lake.subscriptions("stock")
            except Exception as error:
                failures.append(error)
                return
            if last:
                return

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(20):
        lake.land_events(batch(50, n), [NOON + n * HOUR / 10] * 50, 1, 1.0)
        lake.land_subscriptions("stock", NOON + n * HOUR, [subscription(f"s{n}")])
    over.set()
    thread.join(60)
    assert failures == []
    assert all(count % 50 == 0 for count in seen)
    assert seen == sorted(seen)
    assert seen[-1] == 1000


def test_a_landing_that_fails_leaves_nothing_to_be_seen(lake, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pleroma.pipeline.lake.lake_table.write_deltalake", full)
        with pytest.raises(LakeError, match=r"cannot be written: .*No space") as caught:
            lake.land_events(batch(2), [NOON] * 2, 1, 1.0, BatchId("me", 1))
        with pytest.raises(LakeError):
            lake.land_subscriptions("stock", NOON, [subscription("s1")])
    assert "\n" not in str(caught.value)
    assert len(lake.events("stock")) == 0
    assert lake.subscriptions("stock") == []
    assert lake.land_events(batch(2), [NOON] * 2, 1, 1.0, BatchId("me", 1)) == 2
    assert lake.land_subscriptions("stock", NOON, [subscription("s1")]) == 1


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "flipped", "gone", "fewer rows"])
def test_a_damaged_file_is_named_and_the_rest_is_read(lake, damage):
    for n in range(3):
        lake.land_events(batch(200, 200 * n), [NOON + n * HOUR] * 200, 1, 1.0)
    table = lake.event_table("stock")
    files = {dict(file.partition)["hour"]: file for file in table.files()}
    file = files["2026-11-15T13"]
    path = Path(table.url, file.path)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        for position in range(4, len(content) // 2):  # pages and their headers
            content[position] ^= 0x55
    changed = {"empty": b"", "half": content[: len(content) // 2], "garbage": b"x" * 500, "flipped": content}
    if damage == "gone":
        path.unlink()
    elif damage == "fewer rows":
        pq.write_table(pq.ParquetFile(path).read().slice(0, 7), path)
    else:
        path.write_bytes(bytes(changed[damage]))
    assert volumes(lake) == [*range(200), *range(400, 600)]
    (found,) = lake.refused()
    assert (found.table, found.path) == ("events/stock", file.path)
    assert found.reason
    assert "\n" not in found.reason
    volumes(Lake.at(lake.url))
    assert Lake.at(lake.url).refused() == [found]  # once, whoever finds it
    with pytest.raises(DamagedFile) as caught:
        table.rows()
    assert caught.value.field == file.path


def test_a_file_that_the_system_has_no_room_to_open_is_not_called_damaged(lake):
    lake.land_events(batch(2), [NOON] * 2, 1, 1.0)
    table = lake.event_table("stock")
    (file,), (system, root) = table.files(), file_system(table.url)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(LakeError) as caught:
            table.reader().rows(system, root, file)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not isinstance(caught.value, DamagedFile)
    assert "Too many open files" in str(caught.value)
    assert len(table.reader().rows(system, root, file)) == 2


def test_a_subscription_is_in_no_stretch_that_begins_when_it_ends_or_ends_when_it_begins(lake):
    for hours, name in enumerate(("s0", "s1", "s2")):
        lake.land_subscriptions("stock", NOON + hours * HOUR, [subscription(name)])
    history = lake.subscription_history("stock")
    assert [life.row.id for life in history.during(NOON + HOUR, NOON + 2 * HOUR)] == ["s1"]


def test_a_lake_that_takes_no_note_of_damaged_files_is_read_all_the_same(lake, caplog):
    for n in range(2):
        lake.land_events(batch(2, 2 * n), [NOON + n * HOUR] * 2, 1, 1.0)
    table = lake.event_table("stock")
    Path(table.url, min(table.files()).path).write_bytes(b"")
    Path(lake.url, "refused").write_text("no folder")
    assert volumes(lake) == [2, 3]
    assert "the table refused: cannot be" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 3}'])
def test_rows_that_are_no_schema_or_plan_or_network_are_errors_that_name_them(lake, text):
    for name, row in (
        ("schemas", {"schema": "odd", "since": NOON, "definition": text, "rate": None}),
        ("plans", {"schema": "stock", "epoch": 3, "since": NOON, "members": None, "plan": text}),
        ("topology", {"since": NOON, "position": 1, "topology": text, "limits": [], "rooms": []}),
    ):
        table = lake.table(name)
        append(table, pa.Table.from_pylist([row], schema=table.definition.schema))
    with pytest.raises(LakeError, match="schema odd"):
        lake.schema("odd")
    with pytest.raises(LakeError, match="plan 3 of stock"):
        lake.plans("stock")
    with pytest.raises(LakeError, match="topology"):
        lake.topology()


def test_filters_may_be_landed_as_their_json_and_one_that_is_none_is_named(lake):
    lake.land_subscriptions("stock", NOON, [("s1", "me", "h1", '[{"price": {"<": 5}}]')])
    assert [str(row.filter) for row in lake.subscriptions("stock")] == ["price < 5"]
    narrower = Schema("stock", STOCK.attributes[1:])
    lake.land_schema(narrower)
    with pytest.raises(LakeError, match="registration s1"):
        lake.subscriptions("stock")

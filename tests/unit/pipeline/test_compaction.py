"""Small parts are put together, and nobody who reads can tell: nothing is lost, and nothing comes twice."""

import os
import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake import compaction, lake_layout
from pleroma.pipeline.lake.lake import Lake, ReportRow
from pleroma.pipeline.lake.reading import Reading, planned
from pleroma.pipeline.lake.storage import Storage
from support.strategies import STOCK

pytest.importorskip("pyspark", reason="PySpark is missing: folds were NOT tested")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from pleroma.pipeline.lake.spark_source import PleromaSource

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LATER = NOON + 20 * HOUR


@pytest.fixture
def lake(tmp_path):
    return new_lake(tmp_path / "lake")


def new_lake(folder):
    made = Lake.at(str(folder))
    made.land_schema(STOCK)
    return made


def land(lake, number, at=NOON, kind="events", rows=2):
    """A part with so many rows, all of this number."""
    if kind == "reports":
        lake.land_reports("stock", at, [ReportRow(f"s{n}", "me", number) for n in range(rows)])
        return
    event = STOCK.event(price=0.5, volume=number, ticker="T")
    lake.land_events(EventBatch.from_events(STOCK, [event] * rows), [at] * rows, 1, 0.5)


def read(lake, kind="events"):
    """How often each number is read, by whoever reads everything."""
    reading = Reading.of(lake.url, STOCK, kind, None, None)
    column = "volume" if kind == "events" else "delivered"
    found = Counter()
    for batch in reading.batches(planned(Lake.at(lake.url), kind, "stock")):
        found.update(batch.column(column).to_pylist())
    return found


def stream(lake, kind="events"):
    made = PleromaSource({"path": lake.url, "schema": "stock", "kind": kind})
    return made.streamReader(made.schema())


def streamed(flow, start, end, column="volume"):
    found = Counter()
    for partition in flow.partitions(start, end):
        there, portion = pickle.loads(pickle.dumps((flow, partition)))  # noqa: S301
        for batch in there.read(portion):
            found.update(batch.column(column).to_pylist())
    return found


def names(lake, kind="events"):
    return [file.key[:5] for file in lake.files(kind, "stock")]


def on_disk(lake, start="part-"):
    return [path for path in Path(lake.storage.root).rglob("*.parquet") if path.name.startswith(start)]


def aged(lake):
    """The folds are more than a day old."""
    for path in on_disk(lake, "fold-"):
        os.utime(path, (0, 0))


@pytest.mark.parametrize("kind", ["events", "reports"])
def test_the_parts_of_an_hour_become_one_file_and_the_same_is_read(lake, kind):
    for number in range(6):
        land(lake, number, NOON + number % 2 * HOUR, kind)
    before, ids = read(lake, kind), _ids(lake)
    assert lake.fold(NOON + 2 * HOUR) == 6
    assert names(lake, kind) == ["fold-", "fold-"]
    assert (read(lake, kind), _ids(lake)) == (before, ids)
    assert before == dict.fromkeys(range(6), 2)
    assert lake.fold(NOON + 2 * HOUR) == 0  # what is together stays


def _ids(lake):
    return sorted(
        row for file in lake.files("events", "stock") for row in lake.table("events", "stock", file)["id"].to_pylist()
    )


def test_parts_go_a_day_after_they_were_put_together(lake):
    for number in range(3):
        land(lake, number)
    lake.fold(LATER)
    assert lake.expire(NOON - DAY) == 0
    assert len(on_disk(lake)) == 3
    aged(lake)
    assert lake.expire(NOON - DAY) == 3
    assert on_disk(lake) == []
    assert read(lake) == {0: 2, 1: 2, 2: 2}
    assert lake.expire(NOON + DAY) == 1  # and the fold with its hour
    assert lake.files("events", "stock") == []


def test_an_hour_that_is_not_over_is_left_alone(lake):
    for number in range(3):
        land(lake, number)
    assert lake.fold(NOON + HOUR - timedelta(seconds=1)) == 0
    assert names(lake) == ["part-"] * 3
    assert lake.fold(NOON + HOUR) == 3


def test_what_comes_late_is_put_together_in_its_turn(lake):
    for number in range(2):
        land(lake, number)
    lake.fold(LATER)
    land(lake, 2)
    assert lake.fold(LATER) == 0  # one alone
    land(lake, 3)
    assert lake.fold(LATER) == 2
    assert names(lake) == ["fold-"] * 2
    assert read(lake) == dict.fromkeys(range(4), 2)


def test_large_parts_and_large_folds_are_not_made_larger(lake, monkeypatch):
    monkeypatch.setattr(lake_layout, "MAX_PART_ROWS", 5)
    for number in range(5):
        land(lake, number)
    assert lake.fold(LATER) == 4
    assert names(lake) == ["fold-", "fold-", "part-"]
    monkeypatch.setattr(compaction, "LARGE_PART_BYTES", 1)
    for number in range(5, 8):
        land(lake, number)
    assert lake.fold(LATER) == 0
    assert read(lake) == dict.fromkeys(range(8), 2)


def test_many_are_put_together_hour_by_hour(lake):
    for hour in range(3):
        for _ in range(2):
            land(lake, hour, NOON + hour * HOUR)
    assert [lake.fold(LATER, max_parts=1) for _ in range(4)] == [2, 2, 2, 0]
    assert read(lake) == dict.fromkeys(range(3), 4)


def test_a_part_that_cannot_be_read_stays_to_be_seen(lake):
    for number in range(5):
        land(lake, number)
    broken = lake.files("events", "stock")[2].path
    Path(broken).write_bytes(b"PAR1")
    assert lake.fold(LATER) == 4
    assert names(lake) == ["fold-", "part-", "fold-"]
    aged(lake)
    lake.expire(NOON - DAY)
    assert [str(path) for path in on_disk(lake)] == [broken]
    assert read(lake) == {0: 2, 1: 2, 3: 2, 4: 2}


def test_names_grow_also_when_only_a_fold_knows_the_last(lake, monkeypatch):
    for number in range(2):
        land(lake, number)
    lake.fold(LATER)
    aged(lake)
    lake.expire(NOON - DAY)
    end = stream(lake).latestOffset({"key": ""}, ReadAllAvailable())
    monkeypatch.setattr("time.time_ns", lambda: 10**18)  # long ago
    after = Lake.at(lake.url)
    land(after, 2)
    flow = stream(after)
    assert streamed(flow, end, flow.latestOffset(end, ReadAllAvailable())) == {2: 2}
    assert len(set(_ids(after))) == 6


class Died(BaseException):
    pass


@pytest.mark.parametrize("kind", ["events", "reports"])
def test_whenever_it_dies_everything_is_there_once(tmp_path, monkeypatch, kind):
    """Before, and after, every single thing that is done to a file, of folding and of removing."""
    steps, write_table = ["create_dir", "move", "delete_file", "delete_dir"], pq.write_table

    def written(table, name, *, filesystem, **more):
        write_table(table, name, filesystem=getattr(filesystem, "system", filesystem), **more)

    monkeypatch.setattr(pq, "write_table", written)

    class Dying:
        """A file system that is there for so many steps; then whoever uses it is dead."""

        def __init__(self, system, left):
            self.system, self.left = system, left

        def __getattr__(self, name):
            real = getattr(self.system, name)
            if name not in steps:
                return real

            def step(*arguments, **more):
                self.left -= 1
                if self.left == 0:
                    raise Died
                value = real(*arguments, **more)
                self.left -= 1
                if self.left == 0:
                    raise Died
                return value

            return step

    deaths, count = 0, 0
    while deaths == count:
        lake = new_lake(tmp_path / str(count))
        for number in range(6):
            land(lake, number, NOON + number % 2 * HOUR, kind)
        count += 1
        dying = Dying(lake.storage.system, count)
        mortal = Lake(lake.url, Storage(dying, lake.storage.root))
        try:
            mortal.fold(LATER)
            aged(lake)
            mortal.expire(NOON - DAY)
        except Died:
            deaths += 1
        assert read(lake, kind) == dict.fromkeys(range(6), 2), count
        again = Lake.at(lake.url)
        again.fold(LATER)
        aged(again)
        again.expire(NOON - DAY)
        assert read(again, kind) == dict.fromkeys(range(6), 2), count
        assert (names(again, kind), on_disk(again)) == (["fold-", "fold-"], [])
    assert deaths > 15


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_stream_brings_the_same_by_the_same_offsets(tmp_path_factory, data):
    """Offsets from any time, also from before parts were put together, within a fold, and of a batch done again."""
    kind = data.draw(st.sampled_from(["events", "reports"]))
    column = "volume" if kind == "events" else "delivered"
    lake = new_lake(tmp_path_factory.mktemp("lake"))
    offsets = [{"key": ""}]
    for number in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["land", "land", "land", "fold", "remove"]))
        if what == "land":
            land(lake, number, NOON - data.draw(st.integers(0, 2)) * HOUR, kind)
        elif what == "fold":
            lake.fold(LATER)
        else:
            aged(lake)
            lake.expire(NOON - DAY)
        limit = data.draw(st.sampled_from([ReadAllAvailable(), ReadMaxFiles(1)]))
        offsets.append(stream(lake, kind).latestOffset(offsets[-1], limit))
    lake.fold(LATER)
    flow = stream(lake, kind)
    while (last := flow.latestOffset(offsets[-1], ReadMaxFiles(1))) != offsets[-1]:
        offsets.append(last)
    whole = read(lake, kind)
    assert streamed(flow, offsets[0], offsets[-1], column) == whole
    batches = [streamed(flow, *pair, column) for pair in pairwise(offsets)]
    assert sum(batches, Counter()) == whole
    assert set(whole.values()) <= {2}


def test_what_is_available_now_ends_where_it_ended_also_within_a_fold(lake):
    flow = stream(lake)
    for number in range(3):
        land(lake, number)
    flow.prepareForTriggerAvailableNow()
    land(lake, 3)
    lake.fold(LATER)
    start = flow.initialOffset()
    end = flow.latestOffset(start, ReadAllAvailable())
    assert streamed(flow, start, end) == {0: 2, 1: 2, 2: 2}
    assert flow.latestOffset(end, ReadAllAvailable()) == end
    later = stream(lake)
    assert streamed(later, end, later.latestOffset(end, ReadAllAvailable())) == {3: 2}

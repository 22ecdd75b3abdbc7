"""The data source as Spark calls it, but without Spark: planning, pickling, reading, and the offsets of a stream."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError, UnknownName
from pleroma.pipeline.lake.lake import Lake, ReportRow, SubscriptionRow
from pleroma.pipeline.lake.reading import FileToRead, Reading, planned, portions
from support.strategies import STOCK

pytest.importorskip("pyspark", reason="PySpark is missing: the data source was NOT tested")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StringType, StructType

from pleroma.pipeline.lake.spark_source import LakeQuery, PleromaSource

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(STOCK)
    return made


def land(lake, *numbers, at=NOON):
    """An event for each number, one a minute."""
    events = [STOCK.event(price=n + 0.5, volume=n, ticker=f"T{n}") for n in numbers]
    moments = [at + n * HOUR / 60 for n in range(len(events))]
    lake.land_events(EventBatch.from_events(STOCK, events), moments, 1, 0.5)


def source(lake, **options):
    return PleromaSource({"path": lake.url, "schema": "stock"} | {k.rstrip("_"): v for k, v in options.items()})


def rows(reader, partitions):
    """As tasks elsewhere would read them: nothing but what was pickled goes there."""
    found = []
    for partition in partitions:
        there, portion = pickle.loads(pickle.dumps((reader, partition)))  # noqa: S301
        for batch in there.read(portion):
            found += batch.to_pylist()
    return found


def read(lake, names=None, **options):
    made = source(lake, **options)
    schema = made.schema()
    if names is not None:
        schema = StructType([schema[name] for name in names])
    reader = made.reader(schema)
    return rows(reader, reader.partitions())


def stream(lake, **options):
    made = source(lake, **options)
    return made.streamReader(made.schema())


def test_rows_are_those_of_the_time_that_was_asked_for(lake):
    land(lake, *range(90))
    assert [row["volume"] for row in read(lake)] == list(range(90))
    assert [row["volume"] for row in read(lake, from_="2026-11-15T12:30", to="2026-11-15T12:32")] == [30, 31]
    assert [row["volume"] for row in read(lake, from_="2026-11-15T15:29+02:00")] == [89]
    assert read(lake, to="2026-11-15T12:00") == []


def test_only_columns_that_were_asked_for_are_read(lake):
    land(lake, 7)
    assert read(lake, names=["ticker", "volume"]) == [{"ticker": "T7", "volume": 7}]
    with pytest.raises(UnknownName, match="colour"):
        source(lake).reader(StructType().add("colour", StringType()))


def test_snapshots_are_read_with_the_time_they_are_valid(lake):
    one = SubscriptionRow("s1", "me", "h1", Filter.parse(STOCK, "price > 3"))
    two = SubscriptionRow("s2", "me", "h2", Filter.parse(STOCK, "volume < 3"))
    lake.land_subscriptions("stock", NOON, [one])
    lake.land_subscriptions("stock", NOON + HOUR, [one, two])
    found = [(row["id"], row["since"], row["until"]) for row in read(lake, kind="subscriptions")]
    assert found == [("s1", NOON, NOON + HOUR), ("s1", NOON + HOUR, None), ("s2", NOON + HOUR, None)]
    assert [row["id"] for row in read(lake, kind="subscriptions", to="2026-11-15T13:00")] == ["s1"]
    with pytest.raises(LakeError, match="no snapshot"):
        read(lake, kind="subscriptions", to="2026-11-15T11:00")


def test_bad_files_give_no_rows_and_are_listed(lake, caplog):
    for n in range(3):
        land(lake, n)
    lake.land_reports("stock", NOON, [ReportRow("s1", "me")])
    lake.land_subscriptions("stock", NOON, [])
    first, second, _ = (file.path for file in lake.files("events", "stock"))
    (report,) = (file.path for file in lake.files("reports", "stock"))
    (snapshot,) = (each.path for each in lake.snapshots("stock"))
    Path(first).write_bytes(b"")
    Path(second).write_bytes(Path(report).read_bytes())
    Path(report).write_bytes(Path(report).read_bytes()[:-9])
    Path(snapshot).write_bytes(b"PAR1PAR1")
    assert [row["volume"] for row in read(lake)] == [2]
    assert all(path in caplog.text for path in (first, second))
    assert read(lake, kind="reports") == []
    assert {(row["path"], row["kind"]) for row in read(lake, kind="refused")} == {
        (first, "events"),
        (second, "events"),
        (report, "reports"),
        (snapshot, "subscriptions"),
    }
    assert "other columns" in next(row["reason"] for row in read(lake, kind="refused") if row["path"] == second)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schema": "stok"}, "did you mean 'stock'"),
        ({"schema": ""}, "'schema' is missing"),
        ({"path": ""}, "'path' is missing"),
        ({"kind": "event"}, "did you mean 'events'"),
        ({"form": "x"}, "unknown option 'form'"),
        ({"from_": "yesterday"}, "is no moment"),
        ({"maxFilesPerTrigger": "0"}, "a count from 1"),
        ({"maxFilesPerTrigger": "many"}, "a count from 1"),
    ],
)
def test_mistakes_are_named_in_a_line(lake, options, said):
    with pytest.raises((LakeError, UnknownName), match=said) as caught:
        source(lake, **options).schema()
    assert "\n" not in str(caught.value)


def test_names_of_options_are_understood_however_they_are_written(lake):
    given = LakeQuery.of({"PATH": lake.url, "Schema": "stock", "MAXFILESPERTRIGGER": "3"})
    assert (given.path, given.max_files) == (lake.url, 3)


def test_a_stream_is_of_what_happens(lake):
    with pytest.raises(LakeError, match="a stream is of events or reports"):
        stream(lake, kind="subscriptions")


def test_a_stream_brings_each_part_once_also_late_ones(lake):
    flow = stream(lake)
    start = flow.initialOffset()
    assert flow.latestOffset(start, ReadAllAvailable()) == start
    assert flow.partitions(start, start) == []
    land(lake, 1)
    land(lake, 2)
    middle = flow.latestOffset(start, ReadAllAvailable())
    assert flow.reportLatestOffset() == middle
    land(lake, 3, at=NOON - 5 * HOUR)
    end = flow.latestOffset(middle, ReadAllAvailable())
    again = stream(lake)  # after a restart, with the offsets of the checkpoint
    assert [row["volume"] for row in rows(again, again.partitions(start, middle))] == [1, 2]
    assert [row["volume"] for row in rows(again, again.partitions(middle, end))] == [3]
    assert flow.latestOffset(end, ReadAllAvailable()) == end


def test_a_part_that_a_listing_passed_by_is_not_lost(lake, monkeypatch):
    flow = stream(lake)
    for n in range(2):
        land(lake, n, at=NOON + n * HOUR)
    files = lake.files("events", "stock")
    with monkeypatch.context() as patched:  # the first hour was listed before its part had come, the second after
        patched.setattr(Lake, "files", lambda *_: files[1:])
        end = flow.latestOffset(flow.initialOffset(), ReadAllAvailable())
    assert [row["volume"] for row in rows(flow, flow.partitions(flow.initialOffset(), end))] == [0, 1]


def test_a_stream_takes_as_many_parts_at_once_as_it_may(lake):
    flow = stream(lake, maxFilesPerTrigger="2")
    for n in range(5):
        land(lake, n)
    assert flow.getDefaultReadLimit() == ReadMaxFiles(2)
    flow.prepareForTriggerAvailableNow()
    land(lake, 5)  # for the next time
    offset, seen = flow.initialOffset(), []
    for _ in range(4):
        after = flow.latestOffset(offset, ReadMaxFiles(2))
        seen.append([row["volume"] for row in rows(flow, flow.partitions(offset, after))])
        offset = after
    assert seen == [[0, 1], [2, 3], [4], []]


def test_files_are_shared_out_to_enough_tasks_in_order():
    pieces = [FileToRead("events", str(n), 3 << 20) for n in range(100)]
    made = portions(pieces)
    assert [piece for portion in made for piece in portion] == pieces
    assert 8 <= len(made) <= 25
    assert max(sum(piece.size for piece in portion) for portion in made) < 24 << 20
    assert len(portions(pieces[:2])) == 2
    assert len(portions([FileToRead("events", str(n), 1000) for n in range(100)])) == 1
    assert portions([]) == []


def test_batches_are_bounded(lake, monkeypatch):
    monkeypatch.setattr("pleroma.pipeline.lake.reading.BATCH_ROWS", 4)
    land(lake, *range(10))
    reading = Reading.of(lake.url, STOCK, "events", None, None)
    batches = list(reading.batches(planned(lake, "events", "stock")))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert batches[0].schema == reading.schema

"""The data source as Spark calls it, but without Spark: planning, pickling, reading, and the offsets of a stream."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError, UnknownName
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_query import LakeQuery
from pleroma.pipeline.lake.landed import RegistrationRow, ReportedCounters, ReportRow
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.reading import Reading
from pleroma.pipeline.lake.table_files import TableFile
from support.strategies import STOCK

pytest.importorskip("pyspark", reason="PySpark is missing: the data source was NOT tested")

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StringType, StructType

from pleroma.pipeline.lake.spark_source import PleromaSource

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FOR_EVER_DAYS = 10_000.0


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


def report(lake, name, at=NOON, schema="stock"):
    lake.land_reports([ReportedCounters(schema, at, (ReportRow(name, "me", 9, wasted=1),))])


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


def read(lake, names=None, filters=(), **options):
    made = source(lake, **options)
    schema = made.schema()
    if names is not None:
        schema = StructType([schema[name] for name in names])
    reader = made.reader(schema)
    assert list(reader.pushFilters(list(filters))) == []
    return rows(reader, reader.partitions())


def volumes(found):
    return sorted(row["volume"] for row in found)


def stream(lake, **options):
    made = source(lake, **options)
    return made.streamReader(made.schema())


@pytest.fixture
def opened(monkeypatch):
    """The files of events that are opened, each with the columns that are read of it."""
    seen = []
    open_file, read_columns = pq.ParquetFile.__init__, pq.ParquetFile.read

    def note_file(parquet, opened, **how):
        open_file(parquet, opened, **how)
        if "volume" in parquet.schema_arrow.names:
            seen.append((parquet.metadata.row_group(0), set()))

    def note_columns(parquet, columns=None, **how):
        if "volume" in parquet.schema_arrow.names:
            seen[-1][1].update(columns)
        return read_columns(parquet, columns, **how)

    monkeypatch.setattr(pq.ParquetFile, "__init__", note_file)
    monkeypatch.setattr(pq.ParquetFile, "read", note_columns)
    return seen


def first_of(group, name):
    columns = (group.column(n) for n in range(group.num_columns))
    return next(column.statistics.min for column in columns if column.path_in_schema == name)


def test_rows_are_those_of_the_time_that_was_asked_for(lake):
    land(lake, *range(90))
    assert volumes(read(lake)) == list(range(90))
    assert volumes(read(lake, from_="2026-11-15T12:30", to="2026-11-15T12:32")) == [30, 31]
    assert volumes(read(lake, from_="2026-11-15T15:29+02:00")) == [89]
    assert read(lake, to="2026-11-15T12:00") == []


def test_only_columns_that_were_asked_for_are_read(lake, opened):
    land(lake, 7)
    assert read(lake, names=["ticker", "volume"]) == [{"ticker": "T7", "volume": 7}]
    assert [columns for _, columns in opened] == [{"ticker", "volume"}]
    opened.clear()
    assert read(lake, names=["hour", "price"], from_="2026-11-15T12:00") == [{"hour": "2026-11-15T12", "price": 7.5}]
    assert [columns for _, columns in opened] == [{"price", "at"}]
    with pytest.raises(UnknownName, match="colour"):
        source(lake).reader(StructType().add("colour", StringType()))


@pytest.mark.parametrize(
    ("filters", "hours"),
    [
        ([EqualTo(("hour",), "2026-11-15T13")], [1]),
        ([In(("hour",), ("2026-11-15T12", "2026-11-15T15"))], [0, 3]),
        ([LessThan(("at",), NOON + HOUR)], [0]),
        ([GreaterThanOrEqual(("at",), NOON + 2 * HOUR)], [2, 3]),
        ([GreaterThan(("volume",), 20), IsNotNull(("volume",))], [2, 3]),
        ([GreaterThan(("price",), 10.5), LessThan(("volume",), 20)], [1]),
        ([EqualTo(("landing",), 4)], [3]),
        ([In(("landing",), (1, 4, 9))], [0, 3]),
        ([EqualTo(("epoch",), 2)], []),
    ],
)
def test_filters_choose_files_by_partition_and_by_statistics(lake, opened, filters, hours):
    for n in range(4):  # landing n + 1 has the hour n after noon, and volumes 10 n to 10 n + 9
        land(lake, *range(10 * n, 10 * n + 10), at=NOON + n * HOUR)
    found = read(lake, filters=filters)
    assert sorted(first_of(group, "landing") - 1 for group, _ in opened) == hours
    assert {row["volume"] // 10 for row in found} == set(hours)


def test_rows_in_chosen_files_are_filtered_too(lake):
    land(lake, *range(10))
    assert volumes(read(lake, filters=[GreaterThan(("volume",), 6)])) == [7, 8, 9]
    assert volumes(read(lake, filters=[In(("ticker",), ("T3", "T5"))])) == [3, 5]
    assert volumes(read(lake, filters=[LessThan(("at",), (NOON + HOUR / 30).replace(tzinfo=None))])) == [0, 1]


def test_a_zero_is_found_whatever_its_sign(lake):
    zero = EventBatch.from_events(STOCK, [STOCK.event(price=0.0, volume=7, ticker="T")])
    lake.land_events(zero, [NOON], 1, 1.0)
    assert volumes(read(lake, filters=[In(("price",), (-0.0, 5.0))])) == [7]
    assert volumes(read(lake, filters=[EqualTo(("price",), -0.0)])) == [7]


def test_filters_that_cannot_be_decided_here_are_left_to_spark(lake):
    land(lake, 1)
    made = source(lake)
    given = [
        Not(EqualTo(("volume",), 1)),
        EqualTo(("volume", "part"), 1),
        EqualTo(("volume",), "1"),
        GreaterThan(("price",), float("nan")),
        EqualTo(("volume",), 1 << 70),
        In(("volume",), (1, None)),
        IsNotNull(("ticker",)),
    ]
    reader = made.reader(made.schema())
    assert list(reader.pushFilters(given)) == given
    assert volumes(rows(reader, reader.partitions())) == [1]


def test_every_table_is_read_of_one_schema_or_of_all(lake):
    other = Schema("other", (Integer("n", False, 0, 9),))
    lake.land_schema(other)
    report(lake, "s1")
    report(lake, "s2", schema="other")
    assert [row["subscription"] for row in read(lake, kind="reports")] == ["s1"]
    assert sorted(row["subscription"] for row in read(lake, kind="reports", schema="")) == ["s1", "s2"]
    assert {row["schema"] for row in read(lake, kind="schemas", schema="")} == {"stock", "other"}
    assert read(lake, kind="decisions") == []
    assert read(lake, kind="topology", schema="") == []


def test_subscriptions_are_read_with_the_time_they_were_in_force(lake):
    one = RegistrationRow("s1", "me", "h1", Filter.parse(STOCK, "price > 3"))
    two = RegistrationRow("s2", "me", "h2", Filter.parse(STOCK, "volume < 3"))
    lake.land_subscriptions("stock", NOON, [one])
    lake.land_subscriptions("stock", NOON + HOUR, [two])
    maintain(lake, FOR_EVER_DAYS)
    found = sorted((row["id"], row["state"], row["since"], row["until"]) for row in read(lake, kind="subscriptions"))
    assert found == [("s1", "over", NOON, NOON + HOUR), ("s2", "begun", NOON + HOUR, None)]
    assert [row["id"] for row in read(lake, kind="subscriptions", to="2026-11-15T13:00")] == ["s1"]
    assert [row["id"] for row in read(lake, kind="subscriptions", from_="2026-11-15T14:00")] == ["s2"]


def test_damaged_files_give_no_rows_and_are_named_once(lake):
    for n in range(3):
        land(lake, n, at=NOON + n * HOUR)
    report(lake, "s1")
    first, second, _ = sorted(lake.event_table("stock").files(), key=lambda file: file.path)
    (reported,) = lake.table("reports").files()
    events, reports = (Path(lake.url, each) for each in ("events/stock", "reports"))
    (events / first.path).write_bytes(b"")
    (events / second.path).write_bytes((reports / reported.path).read_bytes())
    (reports / reported.path).write_bytes((reports / reported.path).read_bytes()[:-9])
    for _ in range(2):
        assert volumes(read(lake)) == [2]
        assert read(lake, kind="reports") == []
    assert sorted((row["table"], row["path"]) for row in read(lake, kind="refused", schema="")) == [
        ("events/stock", first.path),
        ("events/stock", second.path),
        ("reports", reported.path),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schema": "stok"}, "did you mean 'stock'"),
        ({"schema": "stok", "kind": "reports"}, "did you mean 'stock'"),
        ({"schema": ""}, "'schema' is missing"),
        ({"kind": "refused"}, "refused are of no schema"),
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


def test_a_stream_brings_each_landing_once_also_late_ones(lake):
    flow = stream(lake)
    start = flow.initialOffset()
    assert start == {"landing": 0}
    assert flow.latestOffset(start, ReadAllAvailable()) == start
    assert flow.partitions(start, start) == []
    land(lake, 1)
    land(lake, 2)
    middle = flow.latestOffset(start, ReadAllAvailable())
    assert flow.reportLatestOffset() == middle == {"landing": 2}
    land(lake, 3, at=NOON - 5 * HOUR)
    end = flow.latestOffset(middle, ReadAllAvailable())
    again = stream(lake)  # after a restart, with the offsets of the checkpoint
    assert volumes(rows(again, again.partitions(start, middle))) == [1, 2]
    assert volumes(rows(again, again.partitions(middle, end))) == [3]
    assert flow.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_of_reports_passes_by_those_of_other_schemas(lake):
    lake.land_schema(Schema("other", (Integer("n", False, 0, 9),)))
    report(lake, "s1")
    report(lake, "s2", schema="other")
    report(lake, "s3")
    flow = stream(lake, kind="reports")
    offset, seen = flow.initialOffset(), []
    for _ in range(3):
        after = flow.latestOffset(offset, ReadMaxFiles(1))
        seen.append([row["subscription"] for row in rows(flow, flow.partitions(offset, after))])
        offset = after
    assert seen == [["s1"], ["s3"], []]


def test_a_stream_reads_each_row_once_though_files_are_merged_and_removed(lake):
    for n in range(3):
        land(lake, n)
    flow = stream(lake, maxFilesPerTrigger="2")
    start = flow.initialOffset()
    middle = flow.latestOffset(start, ReadMaxFiles(2))
    assert volumes(rows(flow, flow.partitions(start, middle))) == [0, 1]
    for n in range(3, 10):
        land(lake, n)
    before = flow.latestOffset(middle, ReadMaxFiles(3))
    assert maintain(lake, FOR_EVER_DAYS, kept_hours=0).removed == 10
    assert len(lake.event_table("stock").files()) == 1
    assert volumes(rows(flow, flow.partitions(middle, before))) == [2, 3, 4]  # planned before, read afterwards
    again = stream(lake)
    end = again.latestOffset(before, ReadMaxFiles(2))
    assert volumes(rows(again, again.partitions(before, end))) == [5, 6, 7, 8, 9]
    assert again.latestOffset(end, ReadMaxFiles(2)) == end


def test_a_stream_takes_as_many_files_at_once_as_it_may(lake):
    flow = stream(lake, maxFilesPerTrigger="2")
    for n in range(5):
        land(lake, n)
    assert flow.getDefaultReadLimit() == ReadMaxFiles(2)
    flow.prepareForTriggerAvailableNow()
    land(lake, 5)  # for the next time
    offset, seen = flow.initialOffset(), []
    for _ in range(4):
        after = flow.latestOffset(offset, ReadMaxFiles(2))
        seen.append(volumes(rows(flow, flow.partitions(offset, after))))
        offset = after
    assert seen == [[0, 1], [2, 3], [4], []]


def test_what_is_available_now_ends_there_though_files_are_merged(lake):
    flow = stream(lake)
    for n in range(10):
        land(lake, n)
        if n == 4:
            flow.prepareForTriggerAvailableNow()
    maintain(lake, FOR_EVER_DAYS)
    end = flow.latestOffset(flow.initialOffset(), ReadMaxFiles(1))
    assert volumes(rows(flow, flow.partitions(flow.initialOffset(), end))) == [0, 1, 2, 3, 4]


def files_of(*sizes):
    return tuple(TableFile(f"{n}.parquet", size, None, ()) for n, size in enumerate(sizes))


def test_files_are_shared_out_to_enough_tasks_in_order(lake):
    reading = Reading(lake.url, lake.event_table("stock").reader(), files_of(*[3 << 20] * 100))
    made = reading.portions()
    assert [file for portion in made for file in portion.files] == list(reading.files)
    assert 8 <= len(made) <= 25
    assert max(sum(file.size for file in portion.files) for portion in made) < 24 << 20
    assert len(Reading(lake.url, reading.reader, files_of(3 << 20, 3 << 20)).portions()) == 2
    assert len(Reading(lake.url, reading.reader, files_of(*[1000] * 100)).portions()) == 1
    assert Reading(lake.url, reading.reader, ()).portions() == []


def test_batches_are_bounded(lake, monkeypatch):
    monkeypatch.setattr("pleroma.pipeline.lake.reading.BATCH_ROWS", 4)
    land(lake, *range(10))
    (reading,) = LakeQuery(lake.url, "stock").readings()
    batches = list(reading.batches())
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert batches[0].schema == lake.event_table("stock").definition.schema

"""`spark.read.format("pleroma")` and `spark.readStream.format("pleroma")`: a lake as users see it in a notebook."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pleroma.content import Boolean, Filter, Integer, Schema, Timestamp
from pleroma.content.batch import EventBatch
from pleroma.pipeline import read, register
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow, ReportedCounters, ReportRow
from pleroma.pipeline.lake.maintenance import maintain
from support.strategies import STOCK

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FOR_EVER_DAYS = 10_000.0
COLUMNS = [
    ("hour", "string"),
    ("landing", "bigint"),
    ("id", "bigint"),
    ("at", "timestamp"),
    ("epoch", "int"),
    ("rate", "double"),
    ("principal", "string"),
    ("price", "double"),
    ("volume", "bigint"),
    ("ticker", "string"),
    ("market", "string"),
]


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "a lake #1? {*}"))
    made.land_schema(STOCK)
    return made


def land(lake, numbers, at=NOON):
    """An event for each number, one a minute."""
    events = [STOCK.event(price=n + 0.5, volume=n, ticker=f"T{n}") for n in numbers]
    moments = [at + n * HOUR / 60 for n in range(len(events))]
    lake.land_events(EventBatch.from_events(STOCK, events), moments, 1, 0.5)


def report(lake, name, schema="stock"):
    lake.land_reports([ReportedCounters(schema, NOON, (ReportRow(name, "me", 9, wasted=1),))])


def event_files(lake):
    """Paths of the files of events, in the order of their hours."""
    return sorted(Path(lake.url, "events/stock", file.path) for file in lake.event_table("stock").files())


def source(reader, lake, **options):
    register(reader._spark)
    reader = reader.format("pleroma").option("path", lake.url).option("schema", "stock")
    for name, value in options.items():
        reader = reader.option(name.rstrip("_"), value)
    return reader


def both(spark, lake, start=None, end=None, **options):
    """The same rows by both ways: the source, and Spark's Parquet reader."""
    moments = {name: each.isoformat() for name, each in (("from", start), ("to", end)) if each is not None}
    yield source(spark.read, lake, **options, **moments).load()
    yield read(spark, lake.url, **({"schema": "stock"} | options), start=start, end=end)


def volumes(frame):
    return sorted(row["volume"] for row in frame.select("volume").collect())


def test_events_are_read_with_their_types_within_a_time(spark, lake):
    land(lake, range(90))
    for frame in both(spark, lake):
        assert frame.dtypes == COLUMNS
        rows = frame.orderBy("volume").collect()
        assert [row["volume"] for row in rows] == list(range(90))
        assert len({row["id"] for row in rows}) == 90
        last = rows[-1]
        assert last["at"].replace(tzinfo=UTC) == NOON + 89 * HOUR / 60
        assert (last["epoch"], last["rate"], last["price"], last["ticker"]) == (1, 0.5, 89.5, "T89")
        assert (last["hour"], last["landing"], last["market"]) == ("2026-11-15T13", 1, None)
    for frame in both(spark, lake, NOON + 58 * HOUR / 60, NOON + 62 * HOUR / 60):
        assert volumes(frame) == [58, 59, 60, 61]
    for frame in both(spark, lake, end=NOON):
        assert frame.dtypes == COLUMNS
        assert volumes(frame) == []
    few = source(spark.read, lake).schema("ticker string, volume bigint").load()
    assert few.where("volume < 2").orderBy("volume").collect() == [("T0", 0), ("T1", 1)]


def test_truth_values_and_moments_have_types_of_their_own(spark, lake):
    alarm = Schema("alarm", (Boolean("armed", True), Timestamp.of("at", False, NOON, NOON + HOUR)))
    lake.land_schema(alarm)
    moments = [NOON + n * timedelta(microseconds=400) for n in range(4)]
    events = [alarm.event(armed=armed, at=at) for armed, at in zip((True, False, None, True), moments, strict=True)]
    lake.land_events(EventBatch.from_events(alarm, events), [NOON] * 4, 1, 1.0)
    for frame in both(spark, lake, schema="alarm"):
        assert dict(frame.dtypes)["armed"] == "boolean"
        assert dict(frame.dtypes)["at"] == "timestamp"
        found = frame.orderBy("at").select("armed", "at").collect()
        assert [(row["armed"], row["at"].replace(tzinfo=UTC)) for row in found] == [
            (event.get("armed"), event["at"]) for event in events
        ]
        assert frame.where("armed AND at >= '2026-11-15T12:00:00.000400Z'").count() == 1
    assert list(lake.events("alarm")) == events


def test_filters_are_decided_where_files_are_read(spark, lake):
    """Files that cannot have such rows are gone, so reading them would be an error, or they would be refused."""
    for hours in range(4):
        land(lake, [10 * hours, 10 * hours + 1], NOON + hours * HOUR)
    for n in (0, 2, 3):
        event_files(lake)[n].write_bytes(b"")
    frame = source(spark.read, lake).load()
    for wanted in (
        "hour = '2026-11-15T13'",
        "at >= '2026-11-15T13:00' AND at < '2026-11-15T14:00'",
        "volume > 9 AND volume <= 15",
        "price BETWEEN 8.5 AND 12",
        "landing IN (2, 7)",
        "epoch = 1 AND landing = 2",
    ):
        assert volumes(frame.where(wanted)) == [10, 11], wanted
    assert volumes(frame.where("volume = 10 AND ticker LIKE 'T1%' AND market IS NULL")) == [10]
    assert volumes(frame.where("hour = '2026-11-15T13' AND volume + 1 = 12")) == [11]
    assert lake.refused() == []


def test_the_parquet_reader_gets_only_files_and_columns_of_the_query(spark, lake):
    for hours in range(3):
        land(lake, [hours], NOON + hours * HOUR)
    frame = read(spark, lake.url, "stock", start=NOON + HOUR, end=NOON + 2 * HOUR)
    assert [path.rpartition("/")[2] for path in frame.inputFiles()] == [event_files(lake)[1].name]
    assert frame.where("volume >= 0").select("price").collect() == [(1.5,)]
    few = read(spark, lake.url, "stock").where("volume > 0").select("price")
    plan = few._jdf.queryExecution().executedPlan().toString()
    scan = next(line for line in plan.splitlines() if "ReadSchema" in line)
    assert scan.endswith("ReadSchema: struct<price:double,volume:bigint>")
    assert "GreaterThan(volume,0)" in scan


def test_other_tables_are_read_too(spark, lake):
    report(lake, "s1")
    wanted = Filter.parse(STOCK, "price > 3")
    lake.land_subscriptions("stock", NOON, [RegistrationRow("s1", "me", "h1", wanted)])
    lake.land_subscriptions("stock", NOON + HOUR, [])
    maintain(lake, FOR_EVER_DAYS)
    for frame in both(spark, lake, kind="reports"):
        (found,) = frame.collect()
        assert (found["schema"], found["subscription"], found["principal"]) == ("stock", "s1", "me")
        assert (found["delivered"], found["wasted"]) == (9, 1)
    for frame in both(spark, lake, kind="subscriptions", start=NOON):
        (row,) = frame.collect()
        assert (row["id"], row["principal"], row["host"]) == ("s1", "me", "h1")
        assert row["filter"] == '[{"price": {">": 3.0}}]'
        assert [[part["attribute"] for part in box] for box in row["boxes"]] == [["price"]]
        assert row["until"] - row["since"] == HOUR
    for kind, count in (("schemas", 1), ("plans", 0), ("windows", 0), ("decisions", 0)):
        assert [frame.count() for frame in both(spark, lake, kind=kind)] == [count] * 2
    for kind in ("topology", "refused"):
        assert [frame.count() for frame in both(spark, lake, kind=kind, schema="")] == [0, 0]


def test_names_of_schemas_are_what_they_were(spark, lake):
    for name in ("a b/c=d", "ü%41"):
        lake.land_schema(Schema(name, (Integer("n", False, 0, 9),)))
        report(lake, "s1", name)
        for frame in both(spark, lake, kind="reports", schema=name):
            assert [row["schema"] for row in frame.collect()] == [name]


def test_damaged_files_are_left_out_and_named(spark, lake):
    for hours in range(4):
        land(lake, [hours], NOON + hours * HOUR)
    _, half, changed, gone = event_files(lake)
    whole = half.read_bytes()
    half.write_bytes(whole[: len(whole) // 2])
    whole = bytearray(changed.read_bytes())
    whole[4:200] = bytes(196)
    changed.write_bytes(whole)
    gone.unlink()
    assert volumes(source(spark.read, lake).load()) == [0]
    refused = {row["path"]: row for row in source(spark.read, lake, kind="refused", schema="").load().collect()}
    assert set(refused) == {f"{path.parent.name}/{path.name}" for path in (half, changed, gone)}
    assert {row["table"] for row in refused.values()} == {"events/stock"}
    assert all("not a readable Parquet file" in row["reason"] for row in refused.values())
    assert volumes(read(spark, lake.url, "stock")) == [0]


def test_the_parquet_reader_passes_by_files_of_another_size(spark, lake):
    for hours in range(2):
        land(lake, [hours], NOON + hours * HOUR)
    event_files(lake)[1].write_bytes(b"no Parquet")
    assert volumes(read(spark, lake.url, "stock")) == [0]
    (refused,) = lake.refused()
    assert refused.reason.startswith("has 10 bytes, and the log says ")


def test_mistakes_are_named(spark, lake):
    with pytest.raises(Exception, match="did you mean 'stock'"):
        source(spark.read, lake, schema="stok").load()
    with pytest.raises(Exception, match="did you mean 'stock'"):
        read(spark, lake.url, "stok")


def test_a_mistake_in_an_option_is_said_without_a_traceback(spark, lake):
    mistakes = ({"schema": "stok"}, {"kind": "event"}, {"colour": "red"}, {"from": "noon"})
    for options in mistakes:
        with pytest.raises(Exception) as caught:  # noqa: PT011 (whatever Spark makes of it)
            source(spark.read, lake, **options).load()
        said = str(caught.value)
        assert "Traceback" not in said
        assert len([line for line in said.splitlines() if "pleroma.errors." in line]) == 1, said


def test_files_are_plain_parquet(spark, lake):
    """Whoever knows which files a table has gets the same events from them, without Delta and without us."""
    land(lake, range(90))
    land(lake, [7], NOON + 30 * HOUR)
    paths = [f"file://{path}" for path in event_files(lake)]
    frame = spark.read.options(__globPaths__="false", basePath=f"file://{lake.url}/events/stock").parquet(*paths)
    assert sorted(frame.columns) == sorted(name for name, _ in COLUMNS)
    mine = source(spark.read, lake).load()
    assert sorted(frame.select(mine.columns).collect()) == sorted(mine.collect())


def test_the_format_delta_gives_the_same_rows(spark, lake):
    """Needs the jars of delta-spark, named in PLEROMA_DELTA_JARS with commas between them."""
    land(lake, range(90))
    report(lake, "s1")
    try:
        there = spark.read.format("delta").load(f"{lake.url}/events/stock")
    except Exception as error:  # what Java throws, which has a class of py4j's
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        pytest.skip("Spark has no jar of delta-spark (PLEROMA_DELTA_JARS): the format delta was NOT tested")
    mine = source(spark.read, lake).load()
    assert there.columns == mine.columns
    assert sorted(there.collect()) == sorted(mine.collect())
    reports = spark.read.format("delta").load(f"{lake.url}/reports")
    assert reports.collect() == source(spark.read, lake, kind="reports").load().collect()


def test_a_stream_goes_on_where_it_stopped_and_brings_each_row_once(spark, lake, tmp_path):
    batches = []

    def run():
        """Everything there is now, two files at a time."""
        frame = source(spark.readStream, lake, maxFilesPerTrigger="2").load()
        query = (
            frame.writeStream.foreachBatch(lambda rows, number: batches.append((number, volumes(rows))))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()

    for n in range(3):
        land(lake, [n])
    run()
    assert batches == [(0, [0, 1]), (1, [2])]
    land(lake, [3], NOON - 5 * HOUR)  # late, so it lies in another folder
    run()
    assert batches[2:] == [(2, [3])]
    run()
    assert len(batches) == 3
    for n in range(4, 14):
        land(lake, [n])
    done = maintain(lake, FOR_EVER_DAYS, kept_hours=0)  # of the rows in the merged file, the first were read
    assert (done.merged, len(event_files(lake))) == (13, 2)
    run()
    assert batches[3:] == [(3, list(range(4, 14)))]
    run()
    assert len(batches) == 4


def test_a_stream_hears_of_what_is_landed_meanwhile(spark, lake):
    seen = []
    frame = source(spark.readStream, lake, kind="reports").load()
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: seen.extend(row["subscription"] for row in rows.collect()))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        for name in ("s1", "s2"):
            report(lake, name)
            end = datetime.now(UTC) + timedelta(seconds=90)
            while name not in seen:
                assert query.exception() is None
                assert datetime.now(UTC) < end, "it did not come"
                query.awaitTermination(0.1)
        assert seen == ["s1", "s2"]
    finally:
        query.stop()


def test_the_workers_of_a_cluster_read_a_lake(cluster_spark, lake):
    for n in range(4):
        land(lake, range(10 * n, 10 * n + 10), NOON + n * HOUR)
    event_files(lake)[2].write_bytes(b"no Parquet")
    for frame in both(cluster_spark, lake):
        assert volumes(frame) == [*range(20), *range(30, 40)]
    assert len(lake.refused()) == 1

"""`spark.read.format("pleroma")` and `spark.readStream.format("pleroma")`: a lake as users see it in a notebook."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pleroma.content import Filter, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.pipeline import register
from pleroma.pipeline.lake.lake import Lake, ReportRow, SubscriptionRow
from support.strategies import STOCK

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "a lake"))
    made.land_schema(STOCK)
    return made


def land(lake, numbers, at=NOON):
    """An event for each number, one a minute."""
    events = [STOCK.event(price=n + 0.5, volume=n, ticker=f"T{n}") for n in numbers]
    moments = [at + n * HOUR / 60 for n in range(len(events))]
    lake.land_events(EventBatch.from_events(STOCK, events), moments, 1, 0.5)


def source(reader, lake, **options):
    register(reader._spark)
    reader = reader.format("pleroma").option("path", lake.url).option("schema", "stock")
    for name, value in options.items():
        reader = reader.option(name.rstrip("_"), value)
    return reader


def volumes(frame):
    return sorted(row["volume"] for row in frame.select("volume").collect())


def test_events_are_read_with_their_types_within_a_time(spark, lake):
    land(lake, range(90))
    frame = source(spark.read, lake).load()
    assert frame.dtypes == [
        ("id", "bigint"),
        ("at", "timestamp"),
        ("epoch", "int"),
        ("rate", "double"),
        ("price", "double"),
        ("volume", "bigint"),
        ("ticker", "string"),
        ("market", "string"),
    ]
    rows = frame.orderBy("volume").collect()
    assert [row["volume"] for row in rows] == list(range(90))
    assert len({row["id"] for row in rows}) == 90
    last = rows[-1]
    assert last["at"].replace(tzinfo=UTC) == NOON + 89 * HOUR / 60
    assert (last["epoch"], last["rate"], last["price"], last["ticker"], last["market"]) == (1, 0.5, 89.5, "T89", None)
    within = source(spark.read, lake, from_="2026-11-15T12:58", to="2026-11-15T15:02+02:00").load()
    assert volumes(within) == [58, 59, 60, 61]
    few = source(spark.read, lake).schema("ticker string, volume bigint").load()
    assert few.where("volume < 2").orderBy("volume").collect() == [("T0", 0), ("T1", 1)]


def test_reports_and_snapshots_are_read_too(spark, lake):
    lake.land_reports("stock", NOON, [ReportRow("s1", "me", 9, 1)])
    wanted = Filter.parse(STOCK, "price > 3")
    lake.land_subscriptions("stock", NOON, [SubscriptionRow("s1", "me", "h1", wanted)])
    lake.land_subscriptions("stock", NOON + HOUR, [])
    (report,) = source(spark.read, lake, kind="reports").load().collect()
    assert (report["subscription"], report["principal"], report["delivered"], report["wasted"]) == ("s1", "me", 9, 1)
    (row,) = source(spark.read, lake, kind="subscriptions").load().collect()
    assert (row["id"], row["principal"], row["host"], row["filter"]) == ("s1", "me", "h1", '[{"price": {">": 3.0}}]')
    assert row["until"] - row["since"] == HOUR


def test_bad_files_are_skipped_and_listed(spark, lake, tmp_path):
    for hours in range(3):
        land(lake, [hours], NOON + hours * HOUR)
    good, half, foreign = lake.files("events", "stock")
    whole = Path(half.path).read_bytes()
    Path(half.path).write_bytes(whole[: len(whole) // 2])
    other = Lake.at(str(tmp_path / "other"))
    twin = Schema("stock", (Real("price", False, 0.0, 1.0),))
    other.land_schema(twin)
    other.land_events(EventBatch.from_columns(twin, {"price": [0.5]}), [NOON], 1, 1.0)
    Path(foreign.path).write_bytes(Path(other.files("events", "stock")[0].path).read_bytes())
    assert volumes(source(spark.read, lake).load()) == [0]
    refused = {row["path"]: row for row in source(spark.read, lake, kind="refused").load().collect()}
    assert set(refused) == {half.path, foreign.path}
    assert good.path not in refused
    assert "not a readable Parquet file" in refused[half.path]["reason"]
    assert "of another schema" in refused[foreign.path]["reason"]
    assert {row["kind"] for row in refused.values()} == {"events"}


def test_mistakes_are_named(spark, lake):
    with pytest.raises(Exception, match="did you mean 'stock'"):
        source(spark.read, lake, schema="stok").load()


def test_a_stream_goes_on_where_it_stopped_and_brings_each_part_once(spark, lake, tmp_path):
    batches = []

    def run():
        """Everything there is now, two parts at a time."""
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
    Path(lake.files("events", "stock")[0].path).unlink()  # what was read may go
    run()
    assert batches == [(0, [0, 1]), (1, [2]), (2, [3])]
    run()
    assert len(batches) == 3
    for n in (4, 5):
        land(lake, [n])
    lake.fold(NOON + HOUR)  # of the hour's parts, the first were read and the last were not
    assert [file.key[:4] for file in lake.files("events", "stock")] == ["part", "fold"]
    run()
    assert batches[3:] == [(3, [4, 5])]
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
            lake.land_reports("stock", NOON, [ReportRow(name, "me", 1)])
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
        land(lake, range(10 * n, 10 * n + 10))
    Path(lake.files("events", "stock")[2].path).write_bytes(b"no Parquet")
    assert volumes(source(cluster_spark.read, lake).load()) == [*range(20), *range(30, 40)]

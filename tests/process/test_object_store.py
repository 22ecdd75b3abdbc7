"""A lake in an object store: a real S3 server that is asked over HTTP, and a proxy before it that misbehaves."""

import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import BatchId, ReportedCounters, ReportRow
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.routing.shapes import testbed
from support.lake_writer import EVENTS_PER_BATCH, SHARED_SENDER
from support.object_store.server import BUCKET, KEY_ID, SECRET, ObjectStore
from support.programs import environment
from support.strategies import STOCK

GIVEN_UP_SECONDS = 30.0
"""A store that is lost is given up before."""
STALL_SECONDS = 0.15
"""Half of what an answer takes in the test of stalls: a thread that waited for an answer stood still for longer."""


@pytest.fixture(scope="module")
def running():
    with ObjectStore() as store:
        yield store


@pytest.fixture
def store(running, monkeypatch):
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    running.mend()
    yield running
    running.mend()


@pytest.fixture
def lake(store):
    made = Lake.at(store.url(f"tests/{uuid4()}"))
    made.land_schema(STOCK)
    return made


def quotes(count, first=0):
    numbers = range(first, first + count)
    return EventBatch.from_events(
        STOCK, [STOCK.event(price=float(n % 100), volume=n, ticker="IBM", market="nyse") for n in numbers]
    )


def land(lake, count, first=0, batch=None):
    return lake.land_events(quotes(count, first), [datetime.now(UTC)] * count, 1, 1.0, batch)


def volumes(lake):
    return sorted(event["volume"] for event in Lake.at(lake.url).events("stock"))


def refusal(call):
    """What a call raises, and after how many seconds."""
    began = time.monotonic()
    with pytest.raises(LakeError) as raised:
        call()
    return raised.value, time.monotonic() - began


def test_a_lake_in_a_store_is_landed_in_and_read_as_one_in_a_folder(lake):
    since = datetime(2026, 11, 15, 16, tzinfo=UTC)
    wanted = Filter.parse(STOCK, "price < 50")
    for number in range(6):
        land(lake, 10, first=10 * number, batch=BatchId("p", number))
    lake.land_plan(IndexPlan(1, GridIndex.regular(STOCK, 1)), since)
    lake.land_reports([ReportedCounters("stock", since, (ReportRow("s1", "ann", 3, wasted=1),), BatchId("r", 1))])
    lake.land_subscriptions("stock", since, [("s1", "ann", "h1", wanted)])
    lake.land_topology(testbed(), {"R1": 100}, since)
    read = Lake.at(f"{lake.url}/")
    assert volumes(read) == list(range(60))
    assert [plan.epoch for plan in read.plans("stock")] == [1]
    assert [(row.id, str(row.filter)) for row in read.subscriptions("stock")] == [("s1", "price < 50")]
    assert read.table("reports").rows(names=["wasted"]).to_pylist() == [{"wasted": 1}]
    assert read.topology().rooms == {"R1": 100}
    assert DeltaTable(f"{lake.url}/events/stock").to_pyarrow_table().num_rows == 60
    tidied = maintain(read, keep_days=30, now=datetime.now(UTC) + timedelta(hours=2), kept_hours=0)
    assert (tidied.merged, tidied.failed) == (6, ())
    assert tidied.removed >= 6
    assert len(lake.event_table("stock").files()) == 1
    assert volumes(lake) == list(range(60))


def test_processes_that_land_in_a_store_at_once_lose_and_double_nothing(lake, monkeypatch):
    monkeypatch.delenv("AWS_S3_LOCKING_PROVIDER", raising=False)
    monkeypatch.delenv("AWS_S3_ALLOW_UNSAFE_RENAME", raising=False)
    names, count = ("ann", "ben", "cy"), 4
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "support.lake_writer", lake.url, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for name in names
    ]
    try:
        for each in writers:
            each.stdin.write("begin\n")
            each.stdin.flush()
        assert [each.communicate(timeout=120)[0].strip() for each in writers] == ["done"] * len(names)
    finally:
        for each in writers:
            each.kill()
            each.wait()
    rows = lake.event_table("stock").rows(names=["ticker", "volume", "id", "landing"]).to_pylist()
    every = range(count * EVENTS_PER_BATCH)
    expected = {(name, volume): 1 for name in (*names, SHARED_SENDER) for volume in every}
    assert Counter((row["ticker"], row["volume"]) for row in rows) == expected
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["landing"] for row in rows} == set(range(1, (len(names) + 1) * count + 1))


@pytest.mark.parametrize("match", ["PUT .*parquet", "PUT .*_delta_log", "GET"])
def test_a_store_that_throttles_for_a_while_is_asked_again(lake, store, match):
    land(lake, 5)
    store.fault("slow_down", match, times=6)
    assert land(lake, 5, first=5) == 5
    assert store.mend() == 6
    assert volumes(lake) == list(range(10))


@pytest.mark.parametrize("match", ["PUT .*parquet", "PUT .*_delta_log", "GET"])
@pytest.mark.parametrize("kind", ["cut_request", "cut_answer"])
def test_a_batch_whose_connection_is_cut_is_landed_once_when_it_is_brought_again(lake, store, kind, match):
    land(lake, 5, batch=BatchId("p", 1))
    store.fault(kind, match, times=1)
    for _ in range(2):
        with suppress(LakeError):
            land(lake, 5, first=5, batch=BatchId("p", 2))
    assert store.mend() == 1
    land(lake, 5, first=10, batch=BatchId("p", 3))
    assert volumes(lake) == list(range(15))


@pytest.mark.parametrize(
    ("kind", "match", "reason"),
    [
        ("silent", "", "timed out"),
        ("silent", "PUT .*_delta_log", "timed out"),
        ("slow_down", "PUT", "SlowDown: Please reduce your request rate."),
        ("cut_request", "", "Connection reset by peer"),
        ("denied", "PUT .*parquet", "SignatureDoesNotMatch"),
    ],
)
def test_a_store_that_stays_lost_is_one_clear_line_in_time(lake, store, kind, match, reason):
    land(lake, 5, batch=BatchId("p", 1))
    store.fault(kind, match)
    error, seconds = refusal(lambda: land(lake, 5, first=5, batch=BatchId("p", 2)))
    assert seconds < GIVEN_UP_SECONDS
    assert reason in str(error)
    assert len(str(error).splitlines()) == 1
    assert store.mend() > 0
    assert land(lake, 5, first=5, batch=BatchId("p", 2)) == 5
    assert volumes(lake) == list(range(10))


def test_a_store_that_is_lost_while_it_is_read_is_no_damaged_file(lake, store):
    land(lake, 5)
    store.fault("slow_down", "GET .*parquet")
    error, seconds = refusal(lambda: volumes(lake))
    assert seconds < GIVEN_UP_SECONDS
    assert "SlowDown" in str(error)
    store.mend()
    assert lake.refused() == []
    assert volumes(lake) == list(range(5))


def test_a_damaged_or_missing_object_is_named_and_the_rest_is_read(lake, store):
    for first in (0, 5, 10):
        land(lake, 5, first)
    listed = store.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{lake.url.split('/', 3)[3]}/events/stock/hour")
    keys = [each["Key"] for each in listed["Contents"]]
    store.client.put_object(Bucket=BUCKET, Key=keys[0], Body=b"PAR1 but not really")
    store.client.delete_object(Bucket=BUCKET, Key=keys[1])
    assert len(volumes(lake)) == 5
    assert sorted(key.endswith(each.path) for key in keys[:2] for each in lake.refused()) == [False, False, True, True]


def test_no_thread_stands_still_while_a_slow_store_answers(lake, store):
    land(lake, 5, batch=BatchId("p", 1))
    land(lake, 5, first=5, batch=BatchId("p", 2))
    other = Lake.at(lake.url)
    longest, over = [0.0], threading.Event()

    def beat():
        last = time.perf_counter()
        while not over.wait(0.002):
            now = time.perf_counter()
            longest[0], last = max(longest[0], now - last), now

    store.fault("slow", seconds=2 * STALL_SECONDS)
    heart = threading.Thread(target=beat)
    heart.start()
    try:
        for name, call in {
            "events": lambda: land(other, 5, first=10, batch=BatchId("p", 3)),
            "rows": lambda: Lake.at(lake.url).events("stock"),
            "merging": lambda: other.event_table("stock").rewrite((), lambda rows: rows),
            "vacuum": lambda: other.event_table("stock").vacuum(0),
        }.items():
            longest[0] = 0.0
            call()
            assert longest[0] < STALL_SECONDS, name
    finally:
        over.set()
        heart.join()
    assert store.mend() > 20


def provoked(store, lake, monkeypatch):
    """What errors say, by how they came about."""
    store.fault("denied")
    yield refusal(lambda: land(lake, 5))[0]
    yield refusal(lambda: Lake.at(lake.url).events("stock"))[0]
    yield refusal(lambda: Lake.at(store.url("elsewhere")).check())[0]
    store.fault("denied", "GET .*parquet")
    yield refusal(lambda: Lake.at(lake.url).events("stock"))[0]
    store.mend()
    yield refusal(lambda: Lake.at("s3://no-such-bucket/lake").check())[0]
    yield refusal(lambda: Lake.at(f"s3://{KEY_ID}:{SECRET}@{BUCKET}/lake"))[0]
    yield refusal(lambda: Lake.at(f"s3://{BUCKET}/lake?aws_secret_access_key={SECRET}"))[0]
    yield refusal(lambda: Lake.at(f"hdfs://{KEY_ID}:{SECRET}@{BUCKET}/lake"))[0]
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    yield refusal(lambda: Lake.at(lake.url).check())[0]
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{KEY_ID}:{SECRET}@127.0.0.1:{store.proxy_port}")
    store.fault("denied")
    yield refusal(lambda: Lake.at(lake.url).check())[0]
    store.mend()


def test_no_error_nor_log_has_credentials_in_it(lake, store, monkeypatch, caplog, capfd):
    land(lake, 5)
    caplog.set_level(logging.DEBUG)
    errors = list(provoked(store, lake, monkeypatch))
    said = [text for error in errors for text in (str(error), repr(error), repr(error.args))]
    for text in (*said, caplog.text, *capfd.readouterr()):
        assert SECRET not in text
        assert KEY_ID not in text
    assert all(len(str(error).splitlines()) == 1 for error in errors)
    assert any("AWS_ALLOW_HTTP" in str(error) for error in errors)
    assert any("NoSuchBucket" in str(error) for error in errors)
    assert any("give them in the environment" in str(error) for error in errors)


def test_a_store_may_be_asked_about_a_version_of_before(lake):
    land(lake, 5)
    table = DeltaTable(f"{lake.url}/events/stock")
    version = table.version()
    land(lake, 5, first=5)
    table.load_as_version(version)
    assert pa.table(table.to_pyarrow_table()).num_rows == 5
    table.load_as_version(datetime.now(UTC) + timedelta(seconds=1))
    assert table.to_pyarrow_table().num_rows == 10

"""A batch is landed once: sent again, after a crash, by two controllers, and by several processes at the same time."""

import multiprocessing
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from deltalake import DeltaTable

from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.pipeline.lake import lake_table
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import BatchId, ReportedCounters, ReportRow, SampledEvents
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.table_files import FileReader
from support.strategies import STOCK

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PROCESSES, BATCHES = 3, 12


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(STOCK, NOON)
    return made


def batch(number, count=5):
    return EventBatch.from_events(STOCK, [STOCK.event(price=0.5, volume=number, ticker="T")] * count)


def land(lake, number, sender="publisher"):
    return lake.land_events(batch(number), [NOON + number * MINUTE] * 5, 1, 1.0, BatchId(sender, number))


def volumes(lake):
    return sorted(lake.events("stock").columns[STOCK.names.index("volume")].tolist())


def test_a_batch_that_is_sent_again_makes_no_row(lake):
    assert [land(lake, number) for number in (1, 1, 2, 1, 2)] == [5, 0, 5, 0, 0]
    assert land(Lake.at(lake.url), 2) == 0  # another controller, or the same after a restart
    assert land(lake, 2, "another") == 5
    assert volumes(lake) == [1] * 5 + [2] * 10


def test_of_several_batches_only_those_are_landed_that_are_not_there(lake):
    def sample(number, sender):
        return SampledEvents(batch(number), lake_moments(5), 1, 1.0, BatchId(sender, number))

    land(lake, 3, "a")
    given = [sample(2, "a"), sample(3, "a"), sample(4, "a"), sample(4, "a"), sample(1, "b")]
    assert lake.land_samples(given) == 10
    assert volumes(lake) == [1] * 5 + [3] * 5 + [4] * 5


def lake_moments(count):
    return np.array([NOON.replace(tzinfo=None)] * count, "datetime64[us]")


def test_batches_without_a_number_are_landed_as_they_come(lake):
    for _ in range(2):
        lake.land_events(batch(1), [NOON] * 5, 1, 1.0)
    assert volumes(lake) == [1] * 10


def test_reports_are_landed_once_too(lake):
    reported = [ReportedCounters("stock", NOON, (ReportRow("s1", "me", 7),), BatchId("subscriber", 1))]
    assert [lake.land_reports(reported), lake.land_reports(reported), Lake.at(lake.url).land_reports(reported)] == [
        1,
        0,
        0,
    ]
    assert lake.table("reports").rows()["delivered"].to_pylist() == [7]


def test_whoever_crashes_before_it_answers_may_be_asked_again(lake, monkeypatch):
    """The commit is made, and then the process dies: whoever sends the batch again gets no second row."""
    real = lake_table.write_deltalake

    def dies(*given, **more):
        real(*given, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lake_table, "write_deltalake", dies)
        with pytest.raises(KeyboardInterrupt):
            land(lake, 1)
    assert land(Lake.at(lake.url), 1) == 0
    assert volumes(lake) == [1] * 5


def test_whoever_crashes_before_the_commit_has_landed_nothing(lake, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(lake_table, "write_deltalake", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            land(lake, 1)
    assert volumes(lake) == []
    assert land(lake, 1) == 5


def test_senders_are_forgotten_after_days_and_landings_never(lake, monkeypatch):
    land(lake, 1)
    monkeypatch.setattr(lake_table.time, "time", lambda: 0.0)
    land(lake, 2, "long ago")
    table = DeltaTable(lake.event_table("stock").url)
    table.create_checkpoint()
    again = DeltaTable(table.table_uri)
    assert again.transaction_version("from publisher") == 1
    assert again.transaction_version("from long ago") is None
    assert again.transaction_version("landing") == 2


def test_a_landing_is_decided_on_one_version_whatever_others_land_meanwhile(lake):
    other, table, seen = Lake.at(lake.url), lake.event_table("stock"), []
    land(lake, 1)

    def decide(state):
        for number in (2, 3):
            seen.append((state.landed("from publisher"), len(table.rows()), table.version))
            land(other, number)

    assert table.land(decide) == 0
    assert seen == [(1, 5, 1)] * 2
    assert (len(table.rows()), table.version) == (15, 3)


@pytest.mark.parametrize("meanwhile", [lambda table: table.exists, lambda table: table.vacuum()])
def test_what_other_threads_ask_a_table_does_not_move_a_landing_to_a_later_version(lake, monkeypatch, meanwhile):
    """Between deciding and writing another process lands the same batch, and a thread here looks at the table."""
    other, table = Lake.at(lake.url), lake.event_table("stock")
    land(lake, 1)
    real, asking = table._append, []

    def interrupted(*given):
        monkeypatch.setattr(table, "_append", real)
        land(other, 2)
        asking.append(threading.Thread(target=meanwhile, args=(table,), daemon=True))
        asking[0].start()
        asking[0].join(0.3)  # it waits for the landing, or would be done long before
        real(*given)

    monkeypatch.setattr(table, "_append", interrupted)
    assert land(lake, 2) == 0
    asking[0].join(60)
    assert volumes(lake) == [1] * 5 + [2] * 5
    assert sorted(table.rows()["landing"].to_pylist()) == [1] * 5 + [2] * 5


def test_a_failure_of_another_thread_takes_no_table_from_a_landing_that_is_being_decided(lake):
    """The subscriptions that are in force would all begin anew: nobody would find the table that has them."""
    lake.land_subscriptions("stock", NOON, [("s1", "me", "h1", "[{}]")])
    table, seen = lake.table("subscriptions"), []

    def fail():
        with suppress(LakeError), table._naming("cannot be merged"):
            raise OSError("no space left")

    def decide(_):
        failing = threading.Thread(target=fail, daemon=True)
        failing.start()
        failing.join(0.3)
        seen.append(len(table.rows()))

    table.land(decide)
    assert seen == [1]


def test_two_controllers_of_one_log_land_a_change_once(lake):
    other = Lake.at(lake.url)
    rows = [("s1", "me", "h1", "[{}]")]
    assert [each.land_subscriptions("stock", NOON, rows, position=5) for each in (lake, other, lake)] == [1, 0, 0]
    assert other.land_subscriptions("stock", NOON + MINUTE, [], position=7) == 1
    assert lake.land_subscriptions("stock", NOON + MINUTE, rows, position=6) == 0  # whoever is behind changes nothing
    assert lake.subscriptions("stock") == []
    assert [each.id for each in lake.subscriptions("stock", NOON)] == ["s1"]


def test_whoever_landed_subscriptions_last_reads_none_to_land_the_next(lake, monkeypatch):
    lake.land_subscriptions("stock", NOON, [("s1", "me", "h1", "[{}]")])
    lake.schema("stock")
    read, real = [], FileReader.rows
    monkeypatch.setattr(FileReader, "rows", lambda *given: read.append(given[0].table) or real(*given))
    assert lake.land_subscriptions("stock", NOON + MINUTE, [("s2", "me", "h1", "[{}]")]) == 2
    assert read == []
    assert Lake.at(lake.url).land_subscriptions("stock", NOON + 2 * MINUTE, []) == 1
    assert "subscriptions" in read


def test_whoever_is_refused_again_and_again_says_so(lake, monkeypatch):
    def refused(*_, **__):
        raise lake_table.CommitFailedError("somebody was faster")

    monkeypatch.setattr(lake_table, "write_deltalake", refused)
    monkeypatch.setattr(lake_table, "_PAUSE_SECONDS", 0.0)
    with pytest.raises(LakeError, match="the table events/stock: cannot be written: somebody was faster"):
        land(lake, 1)


def landing_process(url, ready, start):
    lake = Lake.at(url)
    ready.release()
    start.wait(60)
    for number in range(1, BATCHES + 1):
        land(lake, number)
        lake.land_reports([ReportedCounters("stock", NOON, (ReportRow("s1", "me", number),), BatchId("me", number))])
        lake.land_subscriptions("stock", NOON + number * MINUTE, [(f"s{number}", "me", "h1", "[{}]")], number)


def maintaining_process(url, ready, over):
    lake = Lake.at(url)
    ready.release()
    while not over.is_set():
        result = maintain(lake, 10**5, NOON + timedelta(days=1))
        assert not result.failed, result.failed


def test_processes_that_land_the_same_at_the_same_time_land_it_once_while_others_merge(lake):
    """All of them land the same batches as fast as they can, and two merge files, settle and vacuum meanwhile."""
    context = multiprocessing.get_context("spawn")
    ready, start, over = context.Semaphore(0), context.Event(), context.Event()
    landing = [
        context.Process(target=landing_process, args=(lake.url, ready, start), daemon=True) for _ in range(PROCESSES)
    ]
    merging = [context.Process(target=maintaining_process, args=(lake.url, ready, over), daemon=True) for _ in range(2)]
    for process in (*landing, *merging):
        process.start()
    for _ in (*landing, *merging):
        assert ready.acquire(timeout=60)
    start.set()
    for process in landing:
        process.join(120)
    over.set()
    for process in merging:
        process.join(60)
    assert [process.exitcode for process in (*landing, *merging)] == [0] * (PROCESSES + 2)
    rows = lake.event_table("stock").rows().to_pylist()
    assert volumes(lake) == sorted(list(range(1, BATCHES + 1)) * 5)
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["landing"] for row in rows} == set(range(1, BATCHES + 1))
    assert sorted(lake.table("reports").rows()["delivered"].to_pylist()) == list(range(1, BATCHES + 1))
    history = lake.subscription_history("stock")
    assert [(row.id, since, until) for row, since, until in history.entries] == [
        (f"s{n}", NOON + n * MINUTE, None if n == BATCHES else NOON + (n + 1) * MINUTE) for n in range(1, BATCHES + 1)
    ]
    maintain(lake, 10**5, NOON + timedelta(days=1))
    assert len(lake.table("subscriptions").rows()) == BATCHES

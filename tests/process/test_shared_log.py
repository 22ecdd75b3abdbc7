"""What every log keeps to, whether it is a file of one process or shared by many."""

import os
import threading
import time

import pytest

from pleroma.control import LogSnapshot, Recovery, SqliteLog
from pleroma.control.log.durable_log import MAX_BODY_BYTES
from pleroma.control.log.etcd import EtcdLog
from pleroma.errors import EntriesDropped, LogError


@pytest.fixture(params=["sqlite", "etcd"])
def place(request, tmp_path):
    """Opens the same log each time it is called."""
    if request.param == "sqlite":
        return lambda: SqliteLog.open(tmp_path / "log")
    url = request.getfixturevalue("url")
    return lambda: EtcdLog.open(url)


@pytest.fixture
def log(place):
    with place() as opened:
        yield opened


@pytest.fixture
def shared(url):
    """A log to which others may append."""
    with EtcdLog.open(url) as opened:
        yield opened


def fill(log, count):
    """Entries in appends of their own, as compaction may keep an append whole."""
    for number in range(count):
        log.append([b"%d" % number])


def compact(log):
    while log.compact():
        pass
    log.checkpoint()


def positions(log, after=0):
    return [position for position, _ in log.read(after)]


def test_positions_count_from_one_without_gaps(log):
    assert (log.first, log.head) == (0, 0)
    assert list(log.read()) == []
    assert log.append([b"a", b"b"]) == 1
    assert log.append([]) == 3
    assert log.append([b""]) == 3
    assert list(log.read()) == [(1, b"a"), (2, b"b"), (3, b"")]
    assert list(log.read(after=1)) == [(2, b"b"), (3, b"")]
    assert list(log.read(after=3)) == []
    assert (log.first, log.head) == (1, 3)


def test_everything_is_there_after_a_restart(place):
    with place() as log:
        log.append([b"a", b"b"])
        log.save_snapshot(1, b"state")
    with place() as log:
        assert list(log.read()) == [(1, b"a"), (2, b"b")]
        assert log.append([b"c"]) == 3
        assert log.latest_snapshot() == Recovery(LogSnapshot(1, b"state"), ())


def test_the_largest_body_fits_and_a_larger_one_is_refused(log):
    largest = os.urandom(MAX_BODY_BYTES)
    assert log.append([b"before", largest, b"after"]) == 1
    with pytest.raises(LogError, match="body: 16777217 bytes are more than the 16777216"):
        log.append([b"no", bytes(MAX_BODY_BYTES + 1)])
    assert list(log.read()) == [(1, b"before"), (2, largest), (3, b"after")]


def test_reading_goes_on_through_appends_and_large_bodies(log):
    large = os.urandom(300_000)
    for _ in range(4):
        log.append([large])
    log.append([b"x"] * 1500)
    fill(log, 70)
    reader = log.read()
    assert next(reader) == (1, large)
    log.append([b"later"])
    rest = list(reader)
    assert [position for position, _ in rest] == list(range(2, 1576))
    assert rest[-1][1] == b"later"


def test_reading_beyond_the_end_is_refused_at_once(log):
    fill(log, 2)
    for after in (-1, 3):
        with pytest.raises(LogError, match="after: the log ends at 2"):
            log.read(after)


def test_a_batch_that_is_not_bytes_leaves_nothing(log):
    with pytest.raises(TypeError):
        log.append([b"good", 7])
    assert log.append([b"good"]) == 1


def test_the_newest_snapshot_counts_and_one_at_its_position_takes_its_place(log):
    assert log.latest_snapshot() == Recovery(None, ())
    fill(log, 5)
    for position in (1, 3, 5):
        log.save_snapshot(position, b"at %d" % position)
    assert log.latest_snapshot() == Recovery(LogSnapshot(5, b"at 5"), ())
    log.save_snapshot(5, b"again")
    assert log.latest_snapshot() == Recovery(LogSnapshot(5, b"again"), ())
    compact(log)
    assert (log.first, positions(log, 3)) == (4, [4, 5])


def test_a_snapshot_lies_between_the_last_one_and_the_end(log):
    fill(log, 3)
    log.save_snapshot(2, b"")
    for position in (1, 4):
        with pytest.raises(LogError, match="position: the last snapshot is at 2 and the log ends at 3"):
            log.save_snapshot(position, b"")
    assert log.latest_snapshot().position == 2


def test_a_snapshot_of_20_megabytes_is_kept_whole(log):
    fill(log, 2)
    states = [os.urandom(20_000_000), bytes(20_000_000)]
    for position, state in enumerate(states, 1):
        log.save_snapshot(position, state)
        log.checkpoint()
        assert log.latest_snapshot() == Recovery(LogSnapshot(position, state), ())


def test_one_snapshot_alone_lets_nothing_be_dropped(log):
    fill(log, 5)
    log.save_snapshot(4, b"")
    assert log.compact() == 0
    assert positions(log) == [1, 2, 3, 4, 5]


def test_compaction_drops_in_steps_what_lies_before_both_snapshots(log):
    fill(log, 10)
    log.save_snapshot(8, b"")
    log.save_snapshot(9, b"")
    assert [log.compact(max_rows=3) for _ in range(4)] == [3, 3, 2, 0]
    log.checkpoint()
    assert (log.first, positions(log, 8)) == (9, [9, 10])
    with pytest.raises(EntriesDropped, match="after: the log begins at 9"):
        log.read(7)
    assert log.append([b"next"]) == 11


def test_a_reader_overtaken_by_compaction_is_told(log):
    for _ in range(5):
        fill(log, 1)
        log.append([b"x" * 20] * 30)
    fill(log, 600)
    reader = log.read()
    next(reader)
    log.save_snapshot(700, b"")
    log.save_snapshot(701, b"")
    compact(log)
    with pytest.raises(EntriesDropped, match="the log begins at 701 by now"):
        list(reader)


def test_only_a_log_of_others_is_waited_for(log):
    fill(log, 1)
    assert log.wait_beyond(0, 10) == 1
    began = time.monotonic()
    assert log.wait_beyond(1, 0.3) == 1
    assert (time.monotonic() - began >= 0.3) == log.is_shared


def test_waiting_ends_when_another_appends(shared, url):
    with EtcdLog.open(url) as other:
        later = threading.Timer(0.3, other.append, [[b"x"]])
        later.start()
        began = time.monotonic()
        assert shared.wait_beyond(0, 30) == 1
        assert 0.2 < time.monotonic() - began < 10
        later.join()
    assert list(shared.read()) == [(1, b"x")]


def test_closing_ends_a_wait(shared):
    later = threading.Timer(0.3, shared.close)
    later.start()
    began = time.monotonic()
    assert shared.wait_beyond(0, 30) == 0
    assert time.monotonic() - began < 10
    later.join()


def test_a_closed_log_says_so(log):
    log.close()
    log.close()
    for use in (lambda: log.append([b""]), log.read, log.latest_snapshot, lambda: log.head):
        with pytest.raises(LogError, match="the log is closed"):
            use()


def test_threads_append_and_read_at_once(log):
    def write(name):
        for number in range(20):
            log.append([f"{name}-{number}".encode()])

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        seen = [position for position, _ in log.read()]
        assert seen == list(range(1, len(seen) + 1))
    bodies = [body for _, body in log.read()]
    for name in "abc":
        mine = [body for body in bodies if body.startswith(name.encode())]
        assert mine == [f"{name}-{number}".encode() for number in range(20)]

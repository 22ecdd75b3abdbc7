"""The durable log: what is in it, what survives, and who may open it."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from pleroma.control import LogSnapshot, Recovery, SqliteLog
from pleroma.control.log.durable_log import MAX_BODY_BYTES
from pleroma.errors import DiskFull, EntriesDropped, ForeignLog, LogDamaged, LogError, LogLocked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "control.log"


@pytest.fixture
def log(path):
    with SqliteLog.open(path) as opened:
        yield opened


def fill(log, count):
    return log.append([b"%d" % i for i in range(count)])


def compact(log):
    while log.compact():
        pass


def flip(path, what):
    """Change one bit of what is stored, the way a bad disk does."""
    content = bytearray(path.read_bytes())
    assert content.count(what) == 1
    content[content.index(what)] ^= 1
    path.write_bytes(content)


# -- entries ---------------------------------------------------------------------------------------------------------


def test_positions_count_from_one_without_gaps(log):
    assert log.append([b"a", b"b"]) == 1
    assert log.append([b""]) == 3
    assert list(log.read()) == [(1, b"a"), (2, b"b"), (3, b"")]
    assert list(log.read(after=2)) == [(3, b"")]
    assert list(log.read(after=3)) == []
    assert log.head == 3


def test_a_body_has_a_limit(log):
    log.append([bytes(MAX_BODY_BYTES)])
    with pytest.raises(LogError, match="body: 16777217 bytes are more than the 16777216"):
        log.append([b"small", bytes(MAX_BODY_BYTES + 1)])
    assert log.head == 1


def test_nobody_else_appends_so_nobody_has_to_wait(log):
    fill(log, 2)
    assert (log.wait_beyond(1, 60), log.wait_beyond(2, 60)) == (2, 2)


def test_everything_is_there_after_a_restart(path):
    with SqliteLog.open(path) as log:
        log.append([b"a", b"b"])
        log.save_snapshot(1, b"state")
    with SqliteLog.open(path) as log:
        assert list(log.read()) == [(1, b"a"), (2, b"b")]
        assert log.append([b"a", b"c"]) == 3
        assert log.latest_snapshot() == Recovery(LogSnapshot(1, b"state"), ())


def test_a_batch_that_fails_half_way_leaves_nothing(log):
    with pytest.raises(TypeError):
        log.append([b"good", "not bytes"])
    assert log.append([b"good"]) == 1


def test_reading_goes_on_through_appends_and_large_bodies(log):
    large = bytes(700_000)
    log.append([large] * 4 + [b"x"] * 1500)
    reader = log.read()
    assert next(reader) == (1, large)
    log.append([b"later"])
    rest = list(reader)
    assert [position for position, _ in rest] == list(range(2, 1506))
    assert rest[-1][1] == b"later"


def test_an_unfinished_reader_holds_nothing_up(log, path):
    """An open cursor would keep the write-ahead log from beginning anew, and it would grow for ever."""
    fill(log, 2000)
    reader = log.read()
    next(reader)
    for _ in range(40):
        log.append([bytes(400_000)])
    assert os.path.getsize(f"{path}-wal") < 8_000_000
    reader.close()


def test_reading_beyond_the_end_is_refused_at_once(log):
    fill(log, 2)
    for after in (-1, 3):
        with pytest.raises(LogError, match="after: the log ends at 2"):
            log.read(after)


# -- snapshots and compaction ----------------------------------------------------------------------------------------


def test_a_fresh_log_has_no_snapshot(log):
    assert log.latest_snapshot() == Recovery(None, ())
    assert log.latest_snapshot().position == 0


def test_the_last_two_snapshots_are_kept(log, path):
    fill(log, 5)
    for position in (1, 3, 5):
        log.save_snapshot(position, b"at %d" % position)
    assert log.latest_snapshot() == Recovery(LogSnapshot(5, b"at 5"), ())
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT position FROM snapshots ORDER BY 1").fetchall() == [(3,), (5,)]


def test_a_snapshot_at_the_same_position_takes_the_place_of_the_newest(log):
    fill(log, 5)
    log.save_snapshot(2, b"two")
    log.save_snapshot(4, b"four")
    log.save_snapshot(4, b"again")
    assert log.latest_snapshot() == Recovery(LogSnapshot(4, b"again"), ())
    compact(log)
    assert [position for position, _ in log.read(2)] == [3, 4, 5]


def test_a_snapshot_lies_between_the_last_one_and_the_end(log):
    fill(log, 3)
    log.save_snapshot(2, b"")
    for position in (1, 4):
        with pytest.raises(LogError, match="position: the last snapshot is at 2 and the log ends at 3"):
            log.save_snapshot(position, b"")
    assert log.latest_snapshot().position == 2


def test_a_damaged_snapshot_is_reported_and_the_one_before_used(path):
    with SqliteLog.open(path) as log:
        fill(log, 9)
        log.save_snapshot(3, b"the state after three")
        log.save_snapshot(6, b"the state after six")
        compact(log)
    flip(path, b"the state after six")
    with SqliteLog.open(path) as log:
        recovery = log.latest_snapshot()
        assert recovery == Recovery(LogSnapshot(3, b"the state after three"), (6,))
        assert [position for position, _ in log.read(recovery.position)] == [4, 5, 6, 7, 8, 9]
        log.save_snapshot(9, b"the state after nine")
        compact(log)  # the damaged one does not count: what follows the third entry must stay
        assert [position for position, _ in log.read(3)] == [4, 5, 6, 7, 8, 9]
    flip(path, b"the state after nine")
    with SqliteLog.open(path) as log:
        assert log.latest_snapshot() == Recovery(LogSnapshot(3, b"the state after three"), (9,))


def test_without_an_intact_snapshot_a_compacted_log_does_not_pretend(path):
    with SqliteLog.open(path) as log:
        fill(log, 9)
        log.save_snapshot(3, b"the state after three")
        log.save_snapshot(6, b"the state after six")
        compact(log)
    flip(path, b"the state after three")
    flip(path, b"the state after six")
    with SqliteLog.open(path) as log:
        assert log.latest_snapshot() == Recovery(None, (6, 3))
        with pytest.raises(EntriesDropped, match="after: the log begins at 4"):
            log.read(log.latest_snapshot().position)


def test_a_snapshot_whose_pages_are_wild_is_damaged_too(path):
    with SqliteLog.open(path) as log:
        fill(log, 2)
        log.save_snapshot(1, b"good")
        log.save_snapshot(2, bytes(10_000) + b"middle" + bytes(10_000))
    content = bytearray(path.read_bytes())
    page = content.index(b"middle") // 4096 * 4096
    content[page : page + 4] = b"\x7f\0\0\0"  # where the state goes on
    path.write_bytes(content)
    with SqliteLog.open(path) as log:
        assert log.latest_snapshot() == Recovery(LogSnapshot(1, b"good"), (2,))
        assert fill(log, 1) == 3
        with pytest.raises(LogDamaged, match="the file is damaged"):  # pages of such a file are not used again
            log.save_snapshot(3, b"new")
        assert log.latest_snapshot() == Recovery(LogSnapshot(1, b"good"), (2,))


def test_one_snapshot_alone_lets_nothing_be_dropped(log):
    fill(log, 5)
    log.save_snapshot(4, b"")
    assert log.compact() == 0
    assert len(list(log.read())) == 5


def test_compaction_drops_what_lies_before_both_snapshots(log):
    fill(log, 8)
    log.save_snapshot(3, b"")
    log.save_snapshot(8, b"")
    compact(log)
    assert [position for position, _ in log.read(3)] == [4, 5, 6, 7, 8]
    with pytest.raises(EntriesDropped, match="after: the log begins at 4"):
        log.read(2)
    assert fill(log, 1) == 9


def test_compaction_goes_in_small_steps(log):
    fill(log, 10)
    log.save_snapshot(8, b"")
    log.save_snapshot(9, b"")
    assert [log.compact(max_rows=3) for _ in range(4)] == [3, 3, 2, 0]
    assert len(list(log.read(8))) == 2


def test_a_reader_overtaken_by_compaction_is_told(log):
    fill(log, 2000)
    reader = log.read()
    next(reader)
    log.save_snapshot(1500, b"")
    log.save_snapshot(1600, b"")
    compact(log)
    with pytest.raises(EntriesDropped, match="the log begins at 1501 by now"):
        list(reader)


# -- the file --------------------------------------------------------------------------------------------------------


def test_commits_are_synced_to_the_disk(log):
    """Only a power cut could tell the difference, so the setting itself is pinned."""
    with log._file.reading() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_two_cannot_have_the_same_log_open(log, path, tmp_path):
    (tmp_path / "link").symlink_to(path.parent)
    for way in (path, tmp_path / "data" / ".." / "data" / "control.log", tmp_path / "link" / "control.log"):
        with pytest.raises(LogLocked) as caught:
            SqliteLog.open(way)
        assert str(caught.value) == f"{path}: process {os.getpid()} has this log open"
    log.close()
    SqliteLog.open(path).close()


def test_a_failure_to_open_leaves_the_lock_free(path):
    SqliteLog.open(path).close()
    original = path.read_bytes()
    path.write_bytes(b"x" * 8192)
    with pytest.raises(ForeignLog):
        SqliteLog.open(path)
    path.write_bytes(original)
    SqliteLog.open(path).close()


def test_a_killed_holder_does_not_stand_in_the_way(path):
    opening = "from pleroma.control import SqliteLog; log = SqliteLog.open(sys.argv[1])"
    code = f"import sys; {opening}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        with pytest.raises(LogLocked, match=f"process {holder.pid} has this log open"):
            SqliteLog.open(path)
        holder.kill()
    SqliteLog.open(path).close()


def test_other_files_are_refused_and_left_alone(tmp_path):
    text, database, later = tmp_path / "text", tmp_path / "database", tmp_path / "later"
    text.write_bytes(b"A diary, not a log.\n" * 300)
    with closing(sqlite3.connect(database)) as other:
        other.execute("CREATE TABLE entries (position)")
    SqliteLog.open(later).close()
    with closing(sqlite3.connect(later)) as other:
        other.execute("PRAGMA user_version = 4")
    for path, reason in {
        text: "this file is not a log",
        database: "this database belongs to another application",
        later: "the log has format 4, and this program reads format 3",
    }.items():
        before = path.read_bytes()
        with pytest.raises(ForeignLog) as caught:
            SqliteLog.open(path)
        assert str(caught.value) == f"{path}: {reason}"
        assert path.read_bytes() == before


def test_an_empty_file_becomes_a_log(tmp_path):
    (tmp_path / "log").touch()
    with SqliteLog.open(tmp_path / "log") as log:
        assert fill(log, 1) == 1


def test_a_place_where_no_log_can_be_gets_one_clear_error(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "log", tmp_path):
        with pytest.raises(LogError, match=f"{path}: the log cannot be used: "):
            SqliteLog.open(path)


def test_a_closed_log_says_so(log):
    log.close()
    log.close()
    for use in (lambda: log.append([b""]), log.read, log.latest_snapshot, lambda: log.head):
        with pytest.raises(LogError, match="the log is closed"):
            use()


def test_a_damaged_entry_is_not_handed_out(path):
    with SqliteLog.open(path) as log:
        log.append([b"first", b"the second body", b"third"])
    flip(path, b"the second body")
    with SqliteLog.open(path) as log:
        reader = log.read()
        assert next(reader) == (1, b"first")
        with pytest.raises(LogDamaged, match="entry 2 is not what was written"):
            next(reader)


def test_a_missing_entry_is_noticed(log, path):
    fill(log, 3)
    with closing(sqlite3.connect(path)) as other:
        other.execute("DELETE FROM entries WHERE position = 2")
        other.commit()
    with pytest.raises(LogDamaged, match="entry 2 is missing"):
        list(log.read())


# -- a full disk -----------------------------------------------------------------------------------------------------


def test_on_a_full_disk_a_batch_is_refused_whole_and_later_ones_succeed(log):
    log.append([b"before"])
    with log._file.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(DiskFull, match="the disk is full; nothing was written"):
        log.append([b"small", bytes(100_000)])
    assert list(log.read()) == [(1, b"before")]
    assert log.append([b"small"]) == 2
    with pytest.raises(DiskFull):
        log.save_snapshot(2, bytes(100_000))
    assert log.latest_snapshot() == Recovery(None, ())
    with log._file.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert log.append([bytes(100_000)]) == 3
    log.save_snapshot(3, bytes(100_000))

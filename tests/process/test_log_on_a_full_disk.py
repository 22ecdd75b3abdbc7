"""A disk that is really full: a small file system of its own, mounted for the test."""

import asyncio

import pytest

from pleroma.control import GroupCommit, SqliteLog
from pleroma.errors import DiskFull
from support.quick_follower import QuickFollower
from support.small_disk import free_bytes, small_disk


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def fill_up(log):
    """Append until there is no room, and return what was acknowledged."""
    acknowledged = []
    for i in range(10_000):
        body = b"%d " % i + bytes(3000)
        try:
            first = log.append([body, body])
        except DiskFull:
            return acknowledged
        acknowledged += [(first, body), (first + 1, body)]
    raise AssertionError("the disk was never full")


def test_a_full_disk_takes_nothing_back_and_the_log_goes_on_afterwards(disk):
    ballast, log_path = disk / "ballast", disk / "log"
    ballast.write_bytes(bytes(300_000))
    with SqliteLog.open(log_path) as log:
        acknowledged = fill_up(log)
        assert list(log.read()) == acknowledged
        for _ in range(3):
            with pytest.raises(DiskFull, match=f"{log_path}: the disk is full; nothing was written"):
                log.append([bytes(500_000)])
        assert list(log.read()) == acknowledged
        ballast.unlink()
        assert log.append([b"again"]) == len(acknowledged) + 1
    with SqliteLog.open(log_path) as log:
        assert list(log.read()) == [*acknowledged, (len(acknowledged) + 1, b"again")]


def test_group_commit_goes_on_when_there_is_room_again(disk):
    async def main():
        state = []
        async with GroupCommit(log, QuickFollower(lambda position, body, _: state.append((position, body)))) as commit:
            batch = [commit.append(bytes(50_000), None) for i in range(20)]
            results = await asyncio.gather(*batch, return_exceptions=True)
            assert {type(each) for each in results} == {int, DiskFull}
            assert state == list(log.read())
            assert len(state) == sum(isinstance(each, int) for each in results)
            ballast.unlink()
            await commit.append(bytes(50_000), None)
            assert state == list(log.read())
            return state

    ballast = disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    with SqliteLog.open(disk / "log") as log:
        state = asyncio.run(main())
    with SqliteLog.open(disk / "log") as log:
        assert list(log.read()) == state


def test_a_compacted_log_goes_on_in_its_own_space_though_the_disk_is_full(disk):
    """It fails once when the write-ahead log cannot grow; that is then emptied, and the next attempt succeeds."""
    with SqliteLog.open(disk / "log") as log:
        log.append([bytes(3000)] * 50)
        log.save_snapshot(49, b"state")
        log.save_snapshot(50, b"state")
        while log.compact():
            pass
    with SqliteLog.open(disk / "log") as log:
        log.append([b"first"])
        (disk / "ballast").write_bytes(bytes(free_bytes(disk) - 100_000))
        refused = 0
        while log.head < 51 + 30:
            try:
                log.append([bytes(3000)])
                again = False
            except DiskFull:
                assert not again
                again = True
                refused += 1
        assert refused > 1


@pytest.mark.parametrize("existing", [0, 3])
def test_however_little_room_there_is_opening_works_or_says_that_the_disk_is_full(disk, existing):
    ballast, results = disk / "ballast", []
    for room in range(0, 96, 4):
        for leftover in disk.iterdir():
            leftover.unlink()
        if existing:
            with SqliteLog.open(disk / "log") as log:
                log.append([b"old"] * existing)
        ballast.write_bytes(bytes(free_bytes(disk) - room * 1024))
        appended = 0
        try:
            with SqliteLog.open(disk / "log") as log:
                log.append([b"new"])
                appended = 1
        except DiskFull:
            pass
        ballast.unlink()
        with SqliteLog.open(disk / "log") as log:
            assert [body for _, body in log.read()] == [b"old"] * existing + [b"new"] * appended
        results.append(appended)
    assert results == sorted(results)
    assert set(results) == {0, 1}

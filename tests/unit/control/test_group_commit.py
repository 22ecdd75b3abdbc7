"""Group commit: shared transactions, order, failures, cancellation and the end."""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest

from pleroma.control import GroupCommit, LogSnapshot, Recovery, SqliteLog
from pleroma.errors import DiskFull, EntriesDropped, LogError, LogUnclear
from support.quick_follower import QuickFollower


@pytest.fixture
def log(tmp_path):
    with SqliteLog.open(tmp_path / "log") as opened:
        yield opened


class Follower(list):
    """A state that is what was folded, and that takes nothing for large."""

    def received(self, _body):
        return None

    def fold(self, position, body, _call):
        self.append((position, body))

    def is_large(self, _call):
        return False

    async def tell(self, position, call):
        pass


@contextmanager
def stalled(log):
    """While this lasts, a transaction that has begun does not get anywhere."""
    with log._file._busy:
        yield


def limit(log, more_pages):
    with log._file.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + more_pages}")


def run(main):
    """Run to the end, or fail: a waiter that nobody wakes must not hold up all other tests."""

    async def limited():
        task = asyncio.create_task(main)
        await asyncio.wait({task}, timeout=20)
        in_time = task.done()
        while not task.done():  # once for what it does, once for what it does on leaving
            task.cancel()
            await asyncio.sleep(0)
        assert in_time, "somebody waits for ever"
        task.result()

    asyncio.run(limited())


async def start(*appends):
    """Tasks that have all got as far as waiting, in this order."""
    tasks = [asyncio.create_task(each) for each in appends]
    await asyncio.sleep(0)
    return tasks


def transactions(log):
    """Count them: how many entries each had."""
    sizes, append = [], log.append

    def counted(entries):
        sizes.append(len(entries))
        return append(entries)

    log.append = counted
    return sizes


def test_entries_that_arrive_during_a_sync_share_the_next(log):
    async def main():
        sizes = transactions(log)
        async with GroupCommit(log, Follower()) as commit:
            with stalled(log):
                tasks = await start(*(commit.append(b"%d" % i, None) for i in range(600)))
            assert await asyncio.gather(*tasks) == [i + 1 for i in range(600)]
            assert sizes == [1, 256, 256, 87]

    run(main())


def test_a_transaction_is_bounded_in_bytes_too(log):
    async def main():
        sizes = transactions(log)
        async with GroupCommit(log, Follower()) as commit:
            with stalled(log):
                tasks = await start(*(commit.append(bytes(2**20), None) for _ in range(9)))
            await asyncio.gather(*tasks)
            assert sizes == [1, 4, 4]

    run(main())


def test_the_log_has_the_order_of_the_calls(log):
    async def main():
        async with GroupCommit(log, Follower()) as commit:
            tasks = await start(*(commit.append(b"%d" % i, None) for i in range(50)))
            await asyncio.gather(*tasks)
            assert list(log.read()) == [(i + 1, b"%d" % i) for i in range(50)]

    run(main())


def test_the_state_has_the_whole_batch_before_anybody_is_answered(log):
    async def main():
        state, seen = Follower(), []
        async with GroupCommit(log, state) as commit:

            async def append(i):
                position = await commit.append(b"%d" % i, None)
                seen.append((position, len(state)))

            with stalled(log):
                tasks = await start(*(append(i) for i in range(4)))
            await asyncio.gather(*tasks)
            assert seen == [(1, 1), (2, 4), (3, 4), (4, 4)]
            assert state == list(log.read())

    run(main())


def test_an_entry_is_applied_with_the_call_that_came_with_it(log):
    log.append([b"before"])

    async def main():
        applied = []
        async with GroupCommit(log, QuickFollower(lambda *each: applied.append(each))) as commit:
            with stalled(log):
                entries = [(b"a", "first"), (b"a", "second"), (b"b", None)]
                tasks = await start(*(commit.append(*each) for each in entries))
                tasks[0].cancel()  # it is on its way to the disk
            await asyncio.gather(*tasks, return_exceptions=True)
        assert applied == [(1, b"before", None), (2, b"a", "first"), (3, b"a", "second"), (4, b"b", None)]

    run(main())


def test_it_begins_by_applying_what_the_state_does_not_have(log):
    log.append([b"a", b"b", b"c"])

    async def main():
        state = Follower()
        async with GroupCommit(log, state, after=1) as commit:
            assert (state, commit.applied) == ([(2, b"b"), (3, b"c")], 3)
            await commit.append(b"d", None)
            assert state[-1] == (4, b"d")

    run(main())


def test_a_failure_reaches_all_who_shared_it_and_nobody_else(log):
    async def main():
        state = Follower()
        async with GroupCommit(log, state) as commit:
            with stalled(log):
                first = await start(commit.append(b"first", None))
                tasks = await start(*(commit.append(bytes(50_000), None) for i in range(5)))
                limit(log, 20)
            assert await first[0] == 1
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in results] == [DiskFull] * 5
            assert state == list(log.read()) == [(1, b"first")]
            assert await commit.append(b"small", None) == 2
            limit(log, 1000)
            assert await commit.append(bytes(50_000), None) == 3
            assert state == list(log.read())

    run(main())


def test_those_behind_a_failure_are_served_without_further_ado(log):
    async def main():
        async with GroupCommit(log, Follower()) as commit:
            with stalled(log):
                bodies = [b"first", *[bytes(2**20)] * 4, b"small", b"small"]  # three transactions
                tasks = await start(*(commit.append(body, None) for body in bodies))
                limit(log, 20)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in results] == [int, *[DiskFull] * 4, int, int]
            assert [body for _, body in log.read()] == [b"first", b"small", b"small"]

    run(main())


def test_a_cancelled_waiter_harms_no_other(log):
    async def main():
        state = Follower()
        async with GroupCommit(log, state) as commit:
            with stalled(log):
                tasks = await start(*(commit.append(b"%d" % i, None) for i in range(6)))
                for i in (0, 2, 5):
                    tasks[i].cancel()
                await asyncio.sleep(0)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in results if not isinstance(each, int)] == [asyncio.CancelledError] * 3
            # the first was on its way to the disk and stays; the others had not been taken yet
            assert [results[i] for i in (1, 3, 4)] == [2, 3, 4]
            assert state == list(log.read()) == [(1, b"0"), (2, b"1"), (3, b"3"), (4, b"4")]

    run(main())


def test_when_all_who_wait_are_cancelled_the_next_one_is_served(log):
    async def main():
        async with GroupCommit(log, Follower()) as commit:
            with stalled(log):
                tasks = await start(*(commit.append(b"%d" % i, None) for i in range(3)))
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0)
            assert await asyncio.wait_for(commit.append(b"next", None), 5) == 2

    run(main())


def test_closing_finishes_what_waits_and_takes_no_more(log, tmp_path):
    async def main():
        commit = GroupCommit(log, Follower())
        with stalled(log):
            tasks = await start(*(commit.append(b"%d" % i, None) for i in range(10)))
            closing = await start(commit.close())
            with pytest.raises(LogError, match="the log is being closed"):
                await commit.append(b"late", None)
        await asyncio.gather(*tasks, *closing)
        await commit.close()
        with SqliteLog.open(tmp_path / "log") as again:
            assert [body for _, body in again.read()] == [b"%d" % i for i in range(10)]

    run(main())


def test_a_state_that_stops_following_stops_the_log(log):
    def apply(_position, body, _call):
        if body == b"bad":
            raise ZeroDivisionError

    async def main():
        async with GroupCommit(log, QuickFollower(apply)) as commit:
            assert await commit.append(b"good", None) == 1
            with stalled(log):
                tasks = await start(*(commit.append(body, None) for body in (b"fine", b"bad", b"good")))
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert results[0] == 2
            assert [str(each) for each in results[1:]] == ["the state stopped following the log after position 2"] * 2
            assert isinstance(results[1].__cause__, ZeroDivisionError)
            for use in (commit.append(b"more", None), commit.save_snapshot(lambda: bytes)):
                with pytest.raises(LogError, match="the state stopped following"):
                    await use
            assert log.head == 4

    run(main())


def test_a_snapshot_has_the_state_of_its_position_and_compacts(log):
    async def main():
        state = Follower()

        def encoded():
            count = len(state)
            return lambda: b"%d" % count

        async with GroupCommit(log, state) as commit:
            for _ in range(3):
                await commit.append(b"x", None)
            with stalled(log):
                tasks = await start(commit.append(b"x", None), commit.save_snapshot(encoded))
            assert await asyncio.gather(*tasks) == [4, 3]
            assert log.latest_snapshot() == Recovery(LogSnapshot(3, b"3"), ())
            assert await commit.save_snapshot(encoded) == 4
            assert [position for position, _ in log.read(3)] == [4]
            with pytest.raises(LogError, match="the log begins at 4"):
                log.read(2)

    run(main())


def test_after_a_snapshot_the_file_is_brought_up_to_date_once(log, monkeypatch):
    async def main():
        done, checkpoint = [], log.checkpoint
        monkeypatch.setattr(log, "checkpoint", lambda: done.append(log.latest_snapshot().snapshot) or checkpoint())
        async with GroupCommit(log, Follower()) as commit:
            await commit.append(b"x", None)
            await commit.save_snapshot(lambda: lambda: b"state")
            assert done == [LogSnapshot(1, b"state")]

    run(main())


def test_closing_ends_the_threads(log):
    async def main():
        async with GroupCommit(log, LargeFollower()) as commit:
            await commit.append(b"x", "call")
            assert log_threads()
        assert not log_threads()

    def log_threads():
        return [
            each for each in threading.enumerate() if each.name.startswith(("log_", "fold_")) and each not in others
        ]

    others = set(threading.enumerate())
    run(main())


class LargeFollower(Follower):
    """Takes every entry for large."""

    def is_large(self, _call):
        return True


def test_closing_during_a_snapshot_keeps_it(log, tmp_path):
    async def main():
        commit = GroupCommit(log, Follower())
        await commit.append(b"x", None)
        with stalled(log):
            tasks = await start(commit.save_snapshot(lambda: lambda: b"state"), commit.close())
        assert await asyncio.gather(*tasks) == [1, None]
        with SqliteLog.open(tmp_path / "log") as again:
            assert again.latest_snapshot() == Recovery(LogSnapshot(1, b"state"), ())

    run(main())


def test_many_clients_that_come_and_go_leave_a_log_in_order(log):
    """Clients append, and are cancelled at any moment; the state is the log."""

    async def main():
        state, answered = Follower(), {}
        async with GroupCommit(log, state) as commit:

            async def client(name):
                for i in range(30):
                    key = f"{name}-{i}"
                    answered[key] = await commit.append(key.encode(), None)

            clients = [asyncio.create_task(client(n)) for n in range(12)]
            for leaving in clients[::3]:
                await asyncio.sleep(0.01)
                leaving.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            await commit.append(b"last", None)
            assert state == list(log.read())
            bodies = [body.decode() for _, body in state]
            assert len(set(bodies)) == len(bodies)
            assert len(answered) >= 8 * 30
            assert all(bodies[position - 1] == key for key, position in answered.items())

    run(main())


class TestLargeEntries:
    """An entry that takes long is folded in another thread."""

    def test_the_event_loop_goes_on_and_the_state_settles(self, log):
        class Slow(Follower):
            """Takes an entry with a call for large, and does not come to an end with it before it is told to."""

            def __init__(self):
                self.begun, self.goes_on, self.told = threading.Event(), threading.Event(), []

            def fold(self, position, body, call):
                if call is not None:
                    assert threading.current_thread() is not threading.main_thread()
                    self.begun.set()
                    assert self.goes_on.wait(20)
                super().fold(position, body, call)

            def is_large(self, call):
                return call is not None

            async def tell(self, position, call):
                assert threading.current_thread() is threading.main_thread()
                self.told.append((position, call))

        async def main():
            state = Slow()
            async with GroupCommit(log, state) as commit:
                first, settled, second = await start(
                    commit.append(b"large", "call"), commit.settled(), commit.append(b"next", None)
                )
                assert settled.done()  # nothing was under way yet
                while not state.begun.is_set():
                    await asyncio.sleep(0.001)
                (settled,) = await start(commit.settled())
                saving = asyncio.create_task(commit.save_snapshot(lambda: lambda: b"%d" % commit.applied))
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not any(each.done() for each in (first, second, settled, saving))
                assert not list(state)
                state.goes_on.set()
                await settled
                assert state[0] == (1, b"large")
                assert await asyncio.gather(first, second) == [1, 2]
                assert await saving >= 1
                assert state == [(1, b"large"), (2, b"next")]
                assert state.told == [(1, "call"), (2, None)]
                commit.settle()

        run(main())

    def test_who_cannot_wait_blocks_until_the_state_has_settled(self, log):
        class Slow(Follower):
            begun = threading.Event()

            def fold(self, position, body, call):
                self.begun.set()
                time.sleep(0.05)
                super().fold(position, body, call)

            def is_large(self, call):
                return call is not None

        async def main():
            state = Slow()
            async with GroupCommit(log, state) as commit:
                (append,) = await start(commit.append(b"large", "call"))
                while not state.begun.is_set():
                    await asyncio.sleep(0)
                commit.settle()
                assert list(state) == [(1, b"large")]
                assert await append == 1

        run(main())

    def test_a_large_entry_that_fails_stops_the_log(self, log):
        class Failing(Follower):
            def fold(self, *_):
                raise ZeroDivisionError

            def is_large(self, call):
                return call is not None

        async def main():
            async with GroupCommit(log, Failing()) as commit:
                with pytest.raises(LogError, match="stopped following the log after position 0"):
                    await commit.append(b"bad", "call")
                with pytest.raises(LogError, match="stopped following"):
                    await commit.append(b"more", None)

        run(main())


class SharedLog:
    """A log that others append to, in memory. `others` appends as they do; what was waiting for it goes on."""

    is_shared = True

    def __init__(self):
        self.bodies, self._more, self._closed = [], threading.Condition(), False
        self.failing = None
        self.before_append = []

    def others(self, *bodies):
        with self._more:
            self.bodies += bodies
            self._more.notify_all()

    def append(self, bodies):
        if self.before_append:
            self.others(*self.before_append.pop(0))
        if self.failing is not None:
            error, is_there = self.failing
            self.failing = None
            if is_there:
                self.others(*bodies)
            raise error
        first = len(self.bodies) + 1
        self.others(*bodies)
        return first

    def read(self, after=0):
        yield from enumerate(self.bodies[after:], after + 1)

    def wait_beyond(self, position, seconds):
        with self._more:
            self._more.wait_for(lambda: self._closed or len(self.bodies) > position, seconds)
            return len(self.bodies)

    def close(self):
        with self._more:
            self._closed = True
            self._more.notify_all()


class Told(Follower):
    """A state that is what was folded, and that knows whose entries it was told of."""

    def __init__(self):
        self.told = []

    def received(self, body):
        return "theirs", body

    async def tell(self, position, call):
        self.told.append((position, call))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


class TestSharedLog:
    """Entries of other processes are folded in their places."""

    def test_what_others_append_is_folded_though_nobody_here_appends(self):
        async def main():
            log, state = SharedLog(), Told()
            log.others(b"before")
            async with GroupCommit(log, state) as commit:
                commit.follow_others()
                log.others(b"a", b"b")
                await until(lambda: commit.applied == 3)
                log.others(*[b"%d" % i for i in range(1000)])
                await until(lambda: commit.applied == 1003)
            assert state == list(log.read())
            assert state.told[:2] == [(2, ("theirs", b"a")), (3, ("theirs", b"b"))]

        run(main())

    def test_an_own_entry_is_folded_behind_those_that_came_before_it(self):
        async def main():
            log, state = SharedLog(), Told()
            async with GroupCommit(log, state) as commit:
                log.before_append = [[b"x", b"y"], []]
                assert await commit.append(b"mine", "own") == 3
                assert state == [(1, b"x"), (2, b"y"), (3, b"mine")]
                assert await commit.append(b"next", "own") == 4
            assert [call for _, call in state.told] == [("theirs", b"x"), ("theirs", b"y"), "own", "own"]

        run(main())

    @pytest.mark.parametrize("is_there", [False, True])
    def test_an_entry_whose_fate_was_unknown_is_folded_if_it_turns_up(self, is_there):
        async def main():
            log, state = SharedLog(), Told()
            async with GroupCommit(log, state) as commit:
                log.failing = LogError("no answer"), is_there
                with pytest.raises(LogError, match="no answer"):
                    await commit.append(b"mine", "own")
                assert await commit.append(b"next", "own") == 1 + is_there
            assert state == list(log.read())
            assert [body for _, body in state] == [b"mine"] * is_there + [b"next"]

        run(main())

    def test_closing_ends_the_wait_for_others(self):
        async def main():
            log = SharedLog()
            commit = GroupCommit(log, Told())
            commit.follow_others()
            await asyncio.sleep(0.01)
            await commit.close()

        run(main())

    def test_a_follower_goes_on_after_the_log_could_not_be_read(self, monkeypatch):
        monkeypatch.setattr("pleroma.control.log.group_commit.FOLLOW_RETRY_SECONDS", 0.01)

        async def main():
            log, state, tried = SharedLog(), Told(), []
            read, wait = log.read, log.wait_beyond

            def failing(what):
                def sometimes(*arguments):
                    tried.append(what)
                    if tried.count(what) == 1:
                        raise LogError("no member answers")
                    return (read if what == "read" else wait)(*arguments)

                return sometimes

            async with GroupCommit(log, state) as commit:
                log.read, log.wait_beyond = failing("read"), failing("wait")
                commit.follow_others()
                log.before_append = [[b"x"]]
                assert await commit.append(b"mine", "own") == 2
                log.others(b"y")
                await until(lambda: commit.applied == 3)
            assert state == list(log.read())
            assert {"read", "wait"} <= set(tried)

        run(main())

    def test_entries_of_others_that_could_not_be_read_are_read_later(self, monkeypatch):
        monkeypatch.setattr("pleroma.control.log.group_commit.FOLLOW_RETRY_SECONDS", 0.01)

        async def main():
            log, state = SharedLog(), Told()
            read, failures = log.read, [LogError("no member answers")] * 3

            def after_failures(*arguments):
                if failures:
                    raise failures.pop()
                return read(*arguments)

            async with GroupCommit(log, state) as commit:
                log.read = after_failures
                commit.follow_others()
                log.others(b"x")
                await until(lambda: commit.applied == 1)
                failures[:] = [LogError("no member answers")]
                log.failing = LogUnclear("no answer"), True
                with pytest.raises(LogUnclear):
                    await commit.append(b"unclear", "own")
                await until(lambda: commit.applied == 2)
                assert await commit.append(b"mine", "own") == 3
                assert not commit.astray.is_set()
            assert state == list(log.read())

        run(main())

    def test_entries_that_were_dropped_before_they_were_read_stop_the_state(self):
        async def main():
            log, state = SharedLog(), Told()
            async with GroupCommit(log, state) as commit:

                def dropped(*_):
                    raise EntriesDropped("the log begins at 9 by now")

                log.read = dropped
                log.before_append = [[b"x"]]
                with pytest.raises(LogError, match="the state stopped following the log after position 0"):
                    await commit.append(b"mine", "own")
                with pytest.raises(LogError, match="the state stopped following"):
                    await commit.append(b"more", "own")
                assert commit.astray.is_set()

        run(main())

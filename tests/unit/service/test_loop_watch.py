"""The watch of the event loop: how long it stood still, and in which function."""

import asyncio
import threading
import time

import pytest
import uvloop
from structlog.testing import capture_logs

from pleroma.service.http.traffic_rates import TrafficRates
from pleroma.service.loop_watch import LoopWatch
from support.waiting import until

STALL_SECONDS = 0.3
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def read(watch):
    return {
        (sample.name, *sample.labels.values()): sample.value for metric in watch.metrics() for sample in metric.samples
    }


def long_stalls(watch):
    return read(watch)["pleroma_loop_long_stalls_total",]


def asleep():
    time.sleep(STALL_SECONDS)
    return 0.0


def at_work():
    """For longer, so that it is seen more often."""
    end = time.thread_time() + 2 * STALL_SECONDS
    while time.thread_time() < end:
        pass
    return 0.0


async def stalled(watch, clock=asleep):
    """A function of the package that calls a clock which does not return for a while."""
    await asyncio.sleep(0.03)
    before = long_stalls(watch)
    TrafficRates({}, clock)
    await until(lambda: long_stalls(watch) > before)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stall_is_seen_in_full_and_logged_with_the_function_that_ran(loop):
    async def main():
        with LoopWatch().watching() as watch, capture_logs() as logged:
            await stalled(watch)
        assert watch.longest() >= STALL_SECONDS
        found = read(watch)
        for within in ("5s", "60s"):
            assert found["pleroma_loop_stall_seconds", within] == watch.longest()
        assert found["pleroma_loop_stalled_seconds_total",] >= STALL_SECONDS
        (line,) = (each for each in logged if each["ms"] >= STALL_SECONDS * 1000)
        assert line["event"] == "the event loop stood still"
        innermost, ours, *_ = line["where"].split(" < ")
        assert innermost.endswith("test_loop_watch.asleep")
        assert ours == "pleroma.service.http.traffic_rates.TrafficRates.__init__"

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


def test_a_stall_tells_work_from_waiting():
    async def main():
        for clock, shares in ((asleep, (0.0, 0.5)), (at_work, (1.9, 2.5))):
            with LoopWatch().watching() as watch:
                await stalled(watch, clock)
            busy = read(watch)["pleroma_loop_busy_seconds", "5s"]
            assert shares[0] <= busy / STALL_SECONDS <= shares[1]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("stall", "worked", "level"),
    [
        (0.2, 0.01, "debug"),
        (0.2, 0.06, "warning"),
        (0.3, 0.01, "warning"),
        (0.25, 0.05, "warning"),
        (0.2, 0.05, "debug"),
    ],
)
def test_only_long_stalls_and_long_work_are_warnings(stall, worked, level):
    with capture_logs() as logged:
        LoopWatch()._log(0.0, stall, worked)
    assert [each["log_level"] for each in logged] == [level]


def test_one_function_that_stalls_again_and_again_is_logged_once():
    async def main():
        with LoopWatch().watching() as watch, capture_logs() as logged:
            for _ in range(3):
                await stalled(watch)
        assert long_stalls(watch) >= 3
        assert sum("asleep" in each["where"] for each in logged) == 1

    asyncio.run(main())


def test_a_stall_is_told_for_five_seconds_and_for_a_minute():
    passed = 0.0
    watch = LoopWatch(lambda: time.perf_counter() + passed)

    async def main():
        with watch.watching():
            await stalled(watch)

    asyncio.run(main())
    for passed, told in ((3.0, ("5s", "60s")), (10.0, ("60s",)), (55.0, ("60s",)), (65.0, ())):  # noqa: B007
        longest = {within: read(watch)["pleroma_loop_stall_seconds", within] for within in ("5s", "60s")}
        assert {within for within, seconds in longest.items() if seconds >= STALL_SECONDS} == set(told)


def test_each_stall_is_blamed_on_what_ran_then():
    async def main():
        with LoopWatch().watching() as watch, capture_logs() as logged:
            await stalled(watch, at_work)
            await stalled(watch, asleep)
        blamed = [each["where"].partition(" <")[0].rpartition(".")[2] for each in logged]
        assert [each for each in blamed if each in ("at_work", "asleep")] == ["at_work", "asleep"]

    asyncio.run(main())


def test_the_watch_ends_with_its_block():
    async def main():
        threads = threading.active_count()
        with LoopWatch().watching() as watch:
            assert threading.active_count() == threads + 1
        assert threading.active_count() == threads
        before = watch.longest()
        await asyncio.sleep(0.03)
        asleep()
        await asyncio.sleep(0.03)
        assert watch.longest() == before

    asyncio.run(main())


def test_what_other_threads_run_meanwhile_is_told():
    async def main():
        with LoopWatch().watching() as watch, capture_logs() as logged:
            working = threading.Thread(target=TrafficRates, args=({}, at_work))
            working.start()
            await stalled(watch)
            working.join()
        (line,) = (each for each in logged if "asleep" in each["where"])
        assert line["beside"] == "pleroma.service.http.traffic_rates.TrafficRates.__init__"

    asyncio.run(main())


def test_before_it_is_entered_there_is_nothing_to_tell():
    assert LoopWatch().longest() == 0.0

"""How long the event loop stands still, and in which function.

A timer of the loop measures the time from one of its ticks to the next. Meanwhile a thread looks on: when the next
tick is overdue it notes what the loop's thread runs at that moment, and what other threads run that may keep Python's
lock from it. So a long stall is logged with the function to blame.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from types import FrameType
from typing import Self

import structlog
from prometheus_client.core import Metric

from pleroma.service.metric_families import counter, gauge

LONG_STALL_SECONDS = 0.05
"""Nothing should keep the event loop for longer."""
_ALARMING_STALL_SECONDS = 0.25
"""A stall of so long is a warning. A shorter one is, if the loop itself worked: on a busy machine it waits its turn."""
_TICK_SECONDS = 0.01
_LOOK_SECONDS = 0.025
"""The thread looks so often; a tick that is later than that is overdue."""
_WITHIN_SECONDS = (5, 60)
"""The longest stall is told for these last seconds."""
_LOG_AGAIN_SECONDS = 10.0
"""A function that keeps stalling the loop is logged so often."""
_MAX_REMEMBERED_FUNCTIONS = 256
_CALLERS_SHOWN = 4

log = structlog.get_logger("pleroma.service")


class LoopWatch:
    """Watches an event loop inside `watching`.

    A stall is measured from tick to tick: never less than it was, and at most `_TICK_SECONDS` more. Its `busy` part is
    the processor time of the loop's thread; the rest of it waited for a disk, a lock or a processor.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._ticked = 0.0
        self._busy = 0.0
        self._longest: deque[tuple[int, float, float]] = deque(maxlen=_WITHIN_SECONDS[-1] + 1)
        """For each of the last seconds in which there was a tick: longest stall, most processor time."""
        self._long_stalls = 0
        self._stalled_seconds = 0.0
        self._seen: list[tuple[str, list[str]]] = []
        """What the loop ran at moments of the present stall, and what other threads worked at meanwhile."""
        self._logged: dict[str, float] = {}

    @contextmanager
    def watching(self) -> Iterator[Self]:
        """Watch the running event loop, whose thread this is called in."""
        loop = asyncio.get_running_loop()
        ended = threading.Event()
        thread = threading.Thread(
            target=self._look_on, args=(threading.get_ident(), ended), name="loop watch", daemon=True
        )

        def again() -> None:
            if not ended.is_set():
                loop.call_later(_TICK_SECONDS, again)
                self._tick()

        self._ticked, self._busy = self._clock(), time.thread_time()
        loop.call_later(_TICK_SECONDS, again)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def longest(self, within: float = _WITHIN_SECONDS[-1]) -> float:
        """The longest stall of the last seconds, in seconds; 0 where nothing was measured."""
        return max((stall for _, stall, _ in self._slots(within)), default=0.0)

    def metrics(self) -> Iterator[Metric]:
        recent = {f"{each}s": self._slots(each) for each in _WITHIN_SECONDS}
        for name, at, what in (
            ("pleroma_loop_stall_seconds", 1, "Longest time for which the event loop answered nobody"),
            ("pleroma_loop_busy_seconds", 2, "Most processor time that the event loop took between two of its ticks"),
        ):
            values = [(within, max((slot[at] for slot in slots), default=0.0)) for within, slots in recent.items()]
            yield gauge(name, what, values, "within")
        yield counter("pleroma_loop_long_stalls", "Stalls of more than 50 ms", [("", self._long_stalls)])
        yield counter("pleroma_loop_stalled_seconds", "Length of these stalls together", [("", self._stalled_seconds)])

    def _slots(self, within: float) -> list[tuple[int, float, float]]:
        since = self._clock() - within
        return [slot for slot in self._longest if slot[0] + 1 > since]

    def _tick(self) -> None:
        now, busy = self._clock(), time.thread_time()
        stall, worked = now - self._ticked, busy - self._busy
        self._ticked, self._busy = now, busy
        second = int(now)
        if self._longest and self._longest[-1][0] == second:
            _, longest, busiest = self._longest[-1]
            self._longest[-1] = second, max(stall, longest), max(worked, busiest)
        else:
            self._longest.append((second, stall, worked))
        if stall > LONG_STALL_SECONDS:
            self._long_stalls += 1
            self._stalled_seconds += stall
            self._log(now, stall, worked)
        if self._seen:
            self._seen = []

    def _log(self, now: float, stall: float, worked: float) -> None:
        where = _most(where for where, _ in self._seen) or "unknown"
        beside = _most(each for _, many in self._seen for each in many)
        function = where.partition(" < ")[0]
        if now - self._logged.get(function, -_LOG_AGAIN_SECONDS) < _LOG_AGAIN_SECONDS:
            return
        if len(self._logged) == _MAX_REMEMBERED_FUNCTIONS:
            self._logged.clear()
        self._logged[function] = now
        figures = {"ms": round(stall * 1000), "busy_ms": round(worked * 1000)}
        is_alarming = stall >= _ALARMING_STALL_SECONDS or worked > LONG_STALL_SECONDS
        say = log.warning if is_alarming else log.debug
        say("the event loop stood still", **figures, where=where, **({"beside": beside} if beside else {}))

    def _look_on(self, watched: int, ended: threading.Event) -> None:
        cpu: dict[int, float] = {}
        while not ended.wait(_LOOK_SECONDS):
            if self._clock() - self._ticked > _LOOK_SECONDS:
                frames = sys._current_frames()
                del frames[threading.get_ident()]
                where = _described(frames.pop(watched))
                before, cpu = cpu, {each: time.clock_gettime(time.pthread_getcpuclockid(each)) for each in frames}
                at_work = [frames[each] for each in frames if cpu[each] > before.get(each, cpu[each])]
                self._seen.append((where, [next(_ours(frame), _name(frame)) for frame in at_work]))
            else:
                cpu = {}


def _most(seen: Iterable[str]) -> str:
    """The most frequent; empty if there is none."""
    return max(Counter(seen).items(), key=itemgetter(1), default=("", 0))[0]


def _described(frame: FrameType) -> str:
    """The innermost function, and the functions of ours that called it."""
    ours = islice(_ours(frame), _CALLERS_SHOWN)
    first = _name(frame)
    return " < ".join([first, *(each for each in ours if each != first)])


def _ours(frame: FrameType) -> Iterator[str]:
    at: FrameType | None = frame
    while at is not None:
        if at.f_globals.get("__name__", "").startswith("pleroma."):
            yield _name(at)
        at = at.f_back


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"

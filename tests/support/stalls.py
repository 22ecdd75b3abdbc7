"""How long the event loop of a test stands still."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TICK_SECONDS = 0.005
MAX_BUSY_SECONDS = 0.05
"""Nothing on an event loop may take longer, whatever is stored. How late a tick comes is no measure of that: it depends
on who else uses the machine."""


class Stall:
    """`seconds` is the longest time so far that the event loop could not do anything else.

    `busy_seconds` is the most processor time of its own thread in one go, whoever else uses the machine.
    """

    seconds = 0.0
    busy_seconds = 0.0


@asynccontextmanager
async def longest_stall() -> AsyncIterator[Stall]:
    """Measure it inside the block."""
    stall = Stall()

    async def tick() -> None:
        last, busy = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            stall.seconds = max(stall.seconds, time.perf_counter() - last - TICK_SECONDS)
            stall.busy_seconds = max(stall.busy_seconds, time.thread_time() - busy)
            last, busy = time.perf_counter(), time.thread_time()

    ticking = asyncio.create_task(tick())
    try:
        yield stall
    finally:
        ticking.cancel()

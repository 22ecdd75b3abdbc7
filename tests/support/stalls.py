"""How long the event loop of a test stands still."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TICK_SECONDS = 0.005


class Stall:
    """`seconds` is the longest time so far that the event loop could not do anything else."""

    seconds = 0.0


@asynccontextmanager
async def longest_stall() -> AsyncIterator[Stall]:
    """Measure it inside the block."""
    stall = Stall()

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.perf_counter()
            stall.seconds = max(stall.seconds, now - last - TICK_SECONDS)
            last = now

    ticking = asyncio.create_task(tick())
    try:
        yield stall
    finally:
        ticking.cancel()

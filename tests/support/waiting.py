"""Waiting for what other tasks, threads and processes bring about, and not for ever."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from support.service.process import ServiceProcess

T = TypeVar("T")
LIMIT_SECONDS = 60.0
"""After so long a test no longer believes that something will happen."""


def run(main: Callable[[], Coroutine[Any, Any, T]], seconds: float = 30) -> T:
    """Run a coroutine function to its end."""
    return asyncio.run(asyncio.wait_for(main(), seconds))


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.01)


async def until_registered(service: ServiceProcess, ids: Callable[[], Sequence[str]], seconds: float = 20.0) -> None:
    """Wait for the controller to hold what `ids` returns, and nothing else."""
    end = time.monotonic() + seconds
    while (standing := sorted(await asyncio.to_thread(service.registered))) != sorted(ids(), key=str):
        assert time.monotonic() < end, f"it holds {standing}, not {ids()}"
        await asyncio.sleep(0.02)


def wait_until(true: Callable[[], T], what: object, seconds: float = LIMIT_SECONDS) -> T:
    """Wait, in a thread, for something that is true, and return it. `what` names it, or is called to do so."""
    limit = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < limit, f"in vain: {what() if callable(what) else what}"
        time.sleep(0.02)
    return found

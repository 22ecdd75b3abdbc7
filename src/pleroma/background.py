"""Work that takes long, done in another thread while the event loop goes on.

Threads take turns at running Python, so the event loop has its turn every few milliseconds. What no other thread may
interrupt is the collection of garbage, which takes seconds among millions of objects. So none is collected during such
work, and what there is afterwards is exempt from later collections: nearly all of it stays.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_background(function: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
    """Call a function in another thread, without garbage collection meanwhile."""

    def call() -> R:
        with collecting_later():
            return function(*args, **more)

    return await asyncio.to_thread(call)


class _Collecting:
    """How many blocks put off collecting at the moment, and whether it was on before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks = 0
        self.was_enabled = False


_collecting = _Collecting()


@contextmanager
def collecting_later() -> Iterator[None]:
    """Collect no garbage meanwhile, in any thread, and look at nothing later that is there at the end."""
    with _collecting.lock:
        if not _collecting.blocks:
            _collecting.was_enabled = gc.isenabled()
            gc.disable()
        _collecting.blocks += 1
    try:
        yield
    finally:
        with _collecting.lock:
            _collecting.blocks -= 1
            if not _collecting.blocks and _collecting.was_enabled:
                gc.freeze()
                gc.enable()

"""Long work of requests, done in a thread: one piece at a time, and the principals take turns.

While a thread works, the event loop goes on, but each thread more makes it slower. So there is one, whoever asks. Of
each principal one piece waits for the thread, and the others wait for that: who asks for much delays itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pleroma.errors import TooFast

P = ParamSpec("P")
R = TypeVar("R")

MAX_WAITING_PIECES = 32
"""Pieces of one principal that may wait; more are refused."""
RETRY_TURN_SECONDS = 1.0


class Turns:
    def __init__(self) -> None:
        self._thread = asyncio.Lock()
        self._own: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    async def run(self, principal: str, work: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
        """Do a piece of work for a principal when it is its turn, and to the end, even if nobody waits for it."""
        waiting = self._waiting.get(principal, 0)
        if waiting >= MAX_WAITING_PIECES:
            reason = f"{waiting} requests of {principal} that take long are waiting already"
            raise TooFast(reason, RETRY_TURN_SECONDS)
        self._waiting[principal] = waiting + 1

        async def in_turn() -> R:
            try:
                async with self._own.setdefault(principal, asyncio.Lock()), self._thread:
                    return await asyncio.to_thread(work, *arguments, **more)
            finally:
                self._waiting[principal] -= 1
                if not self._waiting[principal]:
                    del self._waiting[principal], self._own[principal]

        return await asyncio.shield(asyncio.create_task(in_turn()))

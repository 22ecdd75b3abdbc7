"""What switches count, as they last said.

A switch is asked in one small message, when somebody wants to know a count and the last answer is old; until the next
answer has come, the last one is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from pleroma.errors import SwitchError
from pleroma.switches.openflow.connection import Connection

FRESH_SECONDS = 1.0
"""So old may an answer be before a switch is asked again."""

What = TypeVar("What", bound=Hashable)
Count = TypeVar("Count")


class AskedCounts(Generic[What, Count]):
    """`connection` is that of the switch which knows a count, if it is connected; `ask` puts the question there."""

    def __init__(
        self,
        connection: Callable[[What], Connection | None],
        ask: Callable[[Connection, What], Awaitable[Count]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._ask_for = ask
        self._clock = clock
        self._known: dict[What, Count] = {}
        """As the switch last said."""
        self._asked: dict[What, float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def at(self, what: What) -> Count | None:
        """A count; None until a switch has told it. It falls when rules go, or a switch starts anew."""
        with suppress(RuntimeError):  # in another thread nobody is asked
            self._ask_if_old(asyncio.get_running_loop(), what)
        return self._known.get(what)

    def _ask_if_old(self, loop: asyncio.AbstractEventLoop, what: What) -> None:
        connection, now = self._connection(what), self._clock()
        if connection is not None and now - self._asked.get(what, -FRESH_SECONDS) >= FRESH_SECONDS:
            self._asked[what] = now
            task = loop.create_task(self._ask(connection, what), name="counts of a switch")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, connection: Connection, what: What) -> None:
        try:
            self._known[what] = await self._ask_for(connection, what)
        except SwitchError:
            self._known.pop(what, None)  # what is not known is not counted

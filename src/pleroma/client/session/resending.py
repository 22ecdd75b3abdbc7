"""Sends the events that wait in the outboxes of a client's publishers, as soon as the network takes them.

It sends a few at a time with pauses between: thousands at once would be more than the sockets on the way have room for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pleroma.client.session.publisher import Publisher

EVENTS_PER_TURN = 64
"""Of each publisher."""
TURN_SECONDS = 0.002
"""Between two turns while the network takes events."""
RESEND_SECONDS = 0.05
"""Until the next attempt while it takes none."""

log = logging.getLogger("pleroma.client")


class Resending:
    """`publishers` gives the publishers of the moment."""

    def __init__(self, publishers: Callable[[], Iterable[Publisher]]) -> None:
        self._publishers = publishers
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()

    def begin(self) -> None:
        """An event waits, and none did before. May be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._due.set)

    async def stay(self) -> None:
        """Send what waits, for ever."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._waiting():
                log.warning("the network takes no events: they wait")
                await self._send()
                log.warning("no event waits any more")

    async def _send(self) -> None:
        while waiting := self._waiting():
            taken = [each.send_waiting(EVENTS_PER_TURN) for each in waiting]
            if self._waiting():
                await asyncio.sleep(TURN_SECONDS if any(taken) else RESEND_SECONDS)

    def _waiting(self) -> list[Publisher]:
        """Those that have events that wait."""
        return [each for each in self._publishers() if each.waiting]

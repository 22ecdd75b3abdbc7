"""How many events switches have let in at hosts' ports, by their own count.

The rules of the admission table count what they let in. A switch is asked for the sum of a port in one small message,
when somebody wants to know it and the last answer is old; until the next answer has come, the last one is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from pleroma.errors import SwitchError
from pleroma.routing import Port, SwitchId
from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.tables import ADMISSION, COOKIE, COOKIE_MASK

FRESH_SECONDS = 1.0
"""So old may an answer be before a switch is asked again."""

_Where = tuple[SwitchId, Port]


class AdmittedEvents:
    """`connection` is that of a switch, if it is connected."""

    def __init__(
        self, connection: Callable[[SwitchId], Connection | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._known: dict[_Where, int] = {}
        """As the switch last said."""
        self._asked: dict[_Where, float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def at(self, switch: SwitchId, port: Port) -> int | None:
        """The count of a port; None until a switch has told it. It falls when rules go."""
        where = switch, port
        with suppress(RuntimeError):  # in another thread nobody is asked
            self._ask_if_old(asyncio.get_running_loop(), where)
        return self._known.get(where)

    def _ask_if_old(self, loop: asyncio.AbstractEventLoop, where: _Where) -> None:
        connection, now = self._connection(where[0]), self._clock()
        if connection is not None and now - self._asked.get(where, -FRESH_SECONDS) >= FRESH_SECONDS:
            self._asked[where] = now
            task = loop.create_task(self._ask(connection, where), name="admitted events")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, connection: Connection, where: _Where) -> None:
        try:
            self._known[where] = await connection.packets_at(where[1], COOKIE, COOKIE_MASK, ADMISSION)
        except SwitchError:
            self._known.pop(where, None)  # what is not known is not counted

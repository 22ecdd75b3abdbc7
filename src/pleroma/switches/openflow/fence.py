"""A switch obeys one controller at a time: the one that claimed it with the latest generation.

A controller claims each switch before it reads or changes any rule (OpenFlow 1.3, 6.3.5: role MASTER with a
generation_id). The switch refuses a claim with an earlier generation than it has seen, and takes no change from a
controller that another one has replaced. So a controller that was paused, and does not know that it was replaced, can
do no harm. One switch that says so is enough: the controller then leaves all switches alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from pleroma.errors import SwitchError, SwitchFenced, SwitchRefused
from pleroma.routing import SwitchId
from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.strangers import Strangers

MAX_GENERATION: Final = (1 << 63) - 1
"""Switches compare generations by the sign of their difference in 64 bits."""

log = structlog.get_logger("pleroma.openflow")


class Fence:
    """Claims switches, if there is a generation, and notes once for all of them that a later controller took over."""

    def __init__(self, generation: int | None, on_fenced: Callable[[SwitchFenced], None], strangers: Strangers) -> None:
        if generation is not None and not 0 <= generation <= MAX_GENERATION:
            raise SwitchError(f"a generation is from 0 to {MAX_GENERATION}", field="generation", value=generation)
        self.error: SwitchFenced | None = None
        self._generation = generation
        self._on_fenced = on_fenced
        self._strangers = strangers
        self._claims: dict[SwitchId, asyncio.Lock] = {}

    @asynccontextmanager
    async def one_claim_at(self, switch: SwitchId) -> AsyncIterator[None]:
        """Claim only one connection of a switch at a time: a second one would fence the first."""
        async with self._claims.setdefault(switch, asyncio.Lock()):
            yield

    async def claim(self, connection: Connection, timeout: float) -> None:
        """Raises an error if the switch does not obey this controller, whatever the reason."""
        if self._generation is None:
            return
        try:
            await connection.claim(self._generation, timeout)
        except SwitchRefused as error:
            raise self._strangers.turned_away(connection, f"it cannot be claimed: {error.reason}") from None
        self.check()  # another switch may have said it meanwhile

    def close(self, error: SwitchFenced) -> bool:
        """False if it was closed before."""
        if self.error is not None:
            return False
        log.warning("a later controller has taken over", reason=str(error))
        self.error = error
        asyncio.get_running_loop().call_soon(self._on_fenced, error)
        return True

    def check(self) -> None:
        if self.error is not None:
            raise self.error

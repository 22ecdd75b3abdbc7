"""Whether a switch is alive: asked when it has been silent, given up when it stays so.

What this process was too busy to read is no silence of the switch's: a look that comes late asks once more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LATE_SECONDS = 1.0
"""Seconds after its time from which on a look says more about this process than about the switch."""


class Heartbeat:
    """`ask` is called after `idle` seconds of silence and again and again, `give_up` after `dead` seconds of it."""

    def __init__(
        self,
        idle: float,
        dead: float,
        ask: Callable[[], None],
        give_up: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle = idle
        self._dead = dead
        self._ask = ask
        self._give_up = give_up
        self._clock = clock
        self._heard = clock()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.heard()
        self._wait(self._idle)

    def heard(self) -> None:
        self._heard = self._clock()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self, due: float) -> None:
        now = self._clock()
        silent = now - self._heard
        if silent < self._idle:
            self._wait(self._idle - silent)
        elif silent < self._dead or now - due > LATE_SECONDS:
            self._wait(max(min(self._idle, self._dead - silent), self._idle / 4))
            self._ask()
        else:
            self._give_up(f"no sign of life in {self._dead:g} s")

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.look, self._clock() + seconds)

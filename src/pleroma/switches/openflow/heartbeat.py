"""Checks whether a switch is alive: asks for an echo when the switch is silent, and gives up if it stays silent.

A check that comes late shows that this process was busy, and may not have read what the switch said: it asks again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LATE_SECONDS = 1.0
"""A check that comes later than this after its time does not give up a switch."""


class Heartbeat:
    """Calls `ask` after `idle` seconds of silence and then repeatedly, and `give_up` after `dead` seconds."""

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

    def check(self, due: float) -> None:
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
        self._timer = asyncio.get_running_loop().call_later(seconds, self.check, self._clock() + seconds)

"""Simulated time: actions happen in the order in which they are due, and else in the order they were asked for."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from pleroma.errors import RoutingError


class Clock:
    """Simulated time in seconds from 0; it passes only in `run`."""

    def __init__(self) -> None:
        self.now = 0.0
        self._asked = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def __len__(self) -> int:
        """How many actions are still to happen."""
        return len(self._due)

    def at(self, time: float, action: Callable[[], None]) -> None:
        if not (math.isfinite(time) and time >= self.now):
            raise RoutingError(f"{time} is no time to come, it is {self.now} now", field="time", value=time)
        heapq.heappush(self._due, (time, self._asked, action))
        self._asked += 1

    def run(self, until: float | None = None) -> None:
        """Carry out the actions that are due, up to and including `until`; after an error, the rest is still due."""
        if until is not None and not (math.isfinite(until) and until >= self.now):
            raise RoutingError(f"{until} is no time to come, it is {self.now} now", field="until", value=until)
        while self._due and (until is None or self._due[0][0] <= until):
            self.now, _, action = heapq.heappop(self._due)
            action()
        if until is not None:
            self.now = until

"""Simulated time: what is due next happens next, and of what is due at once, what was asked for first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from pleroma.errors import RoutingError


class Clock:
    """Stands still unless it is run; seconds from 0."""

    def __init__(self) -> None:
        self.now = 0.0
        self._asked = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def __len__(self) -> int:
        """How much is still to happen."""
        return len(self._due)

    def at(self, time: float, action: Callable[[], None]) -> None:
        if not (math.isfinite(time) and time >= self.now):
            raise RoutingError(f"{time} is no time to come, it is {self.now} now", field="time", value=time)
        heapq.heappush(self._due, (time, self._asked, action))
        self._asked += 1

    def run(self, until: float | None = None) -> None:
        """Let happen what is due, up to and including `until`; an error leaves the rest due."""
        if until is not None and not (math.isfinite(until) and until >= self.now):
            raise RoutingError(f"{until} is no time to come, it is {self.now} now", field="until", value=until)
        while self._due and (until is None or self._due[0][0] <= until):
            self.now, _, action = heapq.heappop(self._due)
            action()
        if until is not None:
            self.now = until

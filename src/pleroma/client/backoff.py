"""How long to wait before trying again: longer each time, and with chance in it.

A thousand clients that lost their controller at one moment must not all come back at one moment. So each pause is drawn
at random between half of its longest and its longest.
"""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    def __init__(
        self,
        first: float = 0.1,
        most: float = 5.0,
        factor: float = 2.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` draws from 0 to 1. Times are in seconds."""
        if not 0 < first <= most or factor < 1:
            raise ValueError(f"a pause from {first} to {most} seconds, by a factor of {factor}")
        self._first, self._most, self._factor, self._chance = first, most, factor, chance
        self._next = first

    def reset(self) -> None:
        """The attempt has succeeded: the next pause is the first, short one again."""
        self._next = self._first

    def pause(self, at_least: float = 0.0) -> float:
        """Seconds to wait now; `at_least` as many as the other side asked for."""
        wait = self._next * (0.5 + 0.5 * self._chance())
        self._next = min(self._next * self._factor, self._most)
        return max(wait, at_least)

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
        first_seconds: float = 0.1,
        max_seconds: float = 5.0,
        factor: float = 2.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` draws from 0 to 1."""
        if not 0 < first_seconds <= max_seconds or factor < 1:
            raise ValueError(f"a pause from {first_seconds} to {max_seconds} seconds, by a factor of {factor}")
        self._first, self._max, self._factor, self._chance = first_seconds, max_seconds, factor, chance
        self._next = first_seconds

    def reset(self) -> None:
        """The attempt has succeeded: the next pause is the first, short one again."""
        self._next = self._first

    def pause(self, at_least: float = 0.0) -> float:
        """Seconds to wait now; `at_least` as many as the other side asked for."""
        wait = self._next * (0.5 + 0.5 * self._chance())
        self._next = min(self._next * self._factor, self._max)
        return max(wait, at_least)

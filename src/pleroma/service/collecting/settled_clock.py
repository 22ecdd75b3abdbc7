"""The time of day for what goes into the lake, by a clock that does not jump with the machine's.

Somebody may set the clock of a machine wrong for a moment. Samples of tomorrow would make those of today come too late
for whoever watches the lake, and rows would seem old enough to be removed. So when the time of day leaves the clock
that nobody can set, that one is followed for some minutes; if the time of day still says the same, it is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

JUMP_SECONDS = 60.0
"""Less is a correction, as networks make them, and is believed at once."""
BELIEVED_SECONDS = 600.0
"""After so long a jump is no mistake."""


def _since_boot() -> float:
    """In seconds, with those in which the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SettledClock:
    """`wall` is the time of day in seconds since 1970, and `steady` a clock that nobody can set."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _since_boot) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()
        """What the time of day is ahead of the steady clock, as far as that is believed."""
        self._jumped: tuple[float, float] | None = None
        """An offset that is not believed yet, and since when it is seen, by the steady clock."""
        self._believed = -float("inf")
        """When a jump was last believed, by the steady clock."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds(), UTC)

    def is_calm(self, seconds: float) -> bool:
        """Whether no jump is seen, and none was believed for so long."""
        self.seconds()
        return self._jumped is None and self._steady() - self._believed >= seconds

    def seconds(self) -> float:
        """Since 1970."""
        steady = self._steady()
        offset = self._wall() - steady
        if abs(offset - self._offset) <= JUMP_SECONDS:
            self._offset, self._jumped = offset, None
        elif self._jumped is None or abs(offset - self._jumped[0]) > JUMP_SECONDS:
            self._jumped = offset, steady
        elif steady - self._jumped[1] >= BELIEVED_SECONDS:
            self._offset, self._jumped, self._believed = offset, None, steady
        return steady + self._offset

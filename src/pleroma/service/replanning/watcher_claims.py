"""Which schemas a watcher of the lake takes care of: while it says so, the controller does not re-plan them."""

from __future__ import annotations

import time
from collections.abc import Callable


class WatcherClaims:
    """A watcher claims a schema for some seconds, and renews the claim while it runs. Kept in memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def claim(self, schema: str, seconds: float) -> None:
        """Claim a schema from now on; 0 seconds give it back."""
        self._until[schema] = self._clock() + seconds

    def is_claimed(self, schema: str) -> bool:
        return self._clock() < self._until.get(schema, 0.0)

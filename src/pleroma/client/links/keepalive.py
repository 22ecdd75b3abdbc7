"""Whether the host's port still knows us: `attach` is repeated, each answer is a sign of life.

The network forgets a socket that has not said `attach` for `seconds`. So it is said three times as often, and where no
answer came for that long, or the last few went unanswered in quick succession, the attachment counts as lost.
"""

from __future__ import annotations

ATTACHES_PER_PERIOD = 3
MAX_UNANSWERED_PROBES = 4
PROBE_SECONDS = 0.25
"""Seconds between attempts while an answer is due."""


class KeepAlive:
    """Times come from the caller, in seconds of a clock that only goes forward."""

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self._asked = 0
        """Attempts since the last answer."""
        self._next = now
        self._refused = False

    @property
    def is_lost(self) -> bool:
        return self._refused or self._asked > MAX_UNANSWERED_PROBES

    @property
    def is_doubtful(self) -> bool:
        """An answer is due."""
        return self._asked > 0

    def wait(self, now: float) -> float:
        """Seconds until `attach` is to be said (again)."""
        return max(self._next - now, 0.0)

    def asked(self, now: float) -> None:
        """`attach` was said."""
        self._asked += 1
        self._next = now + min(PROBE_SECONDS, self.seconds / ATTACHES_PER_PERIOD)

    def answered(self, now: float) -> None:
        self._asked = 0
        self._next = now + self.seconds / ATTACHES_PER_PERIOD

    def doubt(self, now: float) -> None:
        """Something else failed: ask at once."""
        if not self._asked:
            self._next = now

    def refused(self) -> None:
        """The other side said that it does not know us, or that nobody is there."""
        self._refused = True

"""Whether an attachment is still alive: the client repeats `attach`, and each answer is a sign of life.

The network forgets a socket that has not sent `attach` for `seconds`, so the client sends it three times in that time.
While an answer is due, it repeats `attach` in quick succession. When several of these probes stay unanswered, or one is
refused, the attachment is lost.
"""

from __future__ import annotations

ATTACHES_PER_PERIOD = 3
MAX_UNANSWERED_PROBES = 4
PROBE_SECONDS = 0.25
"""Between two probes while an answer is due."""


class KeepAlive:
    """The caller passes the time in, in seconds of a clock that only goes forward."""

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self._unanswered = 0
        """How often `attach` was sent since the last answer."""
        self._next = now
        """When `attach` is to be sent next."""
        self._refused = False

    @property
    def is_lost(self) -> bool:
        return self._refused or self._unanswered > MAX_UNANSWERED_PROBES

    @property
    def is_doubtful(self) -> bool:
        """An answer is due."""
        return self._unanswered > 0

    def wait(self, now: float) -> float:
        """Seconds until `attach` is to be sent."""
        return max(self._next - now, 0.0)

    def sent(self, now: float) -> None:
        """`attach` was sent."""
        self._unanswered += 1
        self._next = now + min(PROBE_SECONDS, self.seconds / ATTACHES_PER_PERIOD)

    def answered(self, now: float) -> None:
        self._unanswered = 0
        self._next = now + self.seconds / ATTACHES_PER_PERIOD

    def doubt(self, now: float) -> None:
        """Something else suggests that the other side is gone: have `attach` sent at once."""
        if not self._unanswered:
            self._next = now

    def refused(self) -> None:
        """The other side does not know this socket, or nobody listens there: the attachment is lost."""
        self._refused = True

"""Events that a publisher could not send yet: they wait in order, up to a bound, until the network takes them again.

While a client is cut off from its network, or the kernel has no room for a datagram, events are put here. They are
encoded when they are sent, since number, plan and keys may be others by then. Once an event waits, those published
after it wait behind it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from pleroma.content import Event
from pleroma.errors import BufferFull, ContentError, shown

BUFFER_EVENTS = 10_000
BUFFER_BYTES = 16 * 2**20
MIN_BUFFER_BYTES = 2**16
"""As much as a datagram can have, so that one event always fits."""

WhenFull = Literal["raise", "drop_oldest"]


@dataclass(slots=True)
class PublisherInfo:
    """Counters since the client advertised."""

    published: int = 0
    """Events that were accepted and numbered: they were sent, wait, or count as `unsent`."""
    frames: int = 0
    """Datagrams sent: one for each cell that an event lies in."""
    unsent: int = 0
    """Events that were numbered and will not be sent: dropped where too many waited, or left when it was closed."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """How many events of a publisher may wait, of how many bytes together, and what happens when one more comes."""

    events: int = BUFFER_EVENTS
    bytes: int = BUFFER_BYTES
    when_full: WhenFull = "raise"

    def __post_init__(self) -> None:
        _check_whole("buffer", self.events, 1)
        _check_whole("buffer_bytes", self.bytes, MIN_BUFFER_BYTES)
        if self.when_full not in get_args(WhenFull):
            reason = f"is one of {', '.join(get_args(WhenFull))}, not {shown(self.when_full)}"
            raise ContentError(reason, field="when_full", value=self.when_full)


class WaitingEvent(NamedTuple):
    event: Event
    sequence: int
    time: int
    payload: bytes
    size: int
    """Bytes of its packet when it was published."""


class Outbox:
    """`send` sends one event, and tells whether the network took it. `info` counts what is dropped.

    Methods may be called from any thread.
    """

    def __init__(
        self, limits: BufferLimits, info: PublisherInfo, send: Callable[[Event, int, int, bytes], bool]
    ) -> None:
        self.waiting: deque[WaitingEvent] = deque()
        self._limits = limits
        self._info = info
        self._send = send
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, number: Callable[[], int], event: Event, payload: bytes, time: int, size: int) -> int:
        """Have an event wait behind the others. `number` is asked for its number once there is room for it."""
        limits = self._limits
        with self._lock:
            while len(self.waiting) >= limits.events or self._bytes + size > limits.bytes:
                if limits.when_full == "raise":
                    raise BufferFull(len(self.waiting), self._bytes)
                self._bytes -= self.waiting.popleft().size
                self._info.unsent += 1
            sequence = number()
            self.waiting.append(WaitingEvent(event, sequence, time, payload, size))
            self._bytes += size
            return sequence

    def send_some(self, most: int) -> bool:
        """Send up to so many of those that wait, the oldest first; False as soon as the network does not take one.

        An event stays the first in the queue until it is sent, so that no other is sent before it meanwhile.
        """
        for _ in range(most):
            with self._lock:
                if not self.waiting:
                    return True
                event, sequence, time, payload, size = self.waiting[0]
                if not self._send(event, sequence, time, payload):
                    return False
                self.waiting.popleft()
                self._bytes -= size
        return True

    def give_up(self) -> int:
        """Drop everything that waits; returns how many events that are."""
        with self._lock:
            left = len(self.waiting)
            self._info.unsent += left
            self.waiting.clear()
            self._bytes = 0
            return left


def _check_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ContentError(f"is a whole number from {least:,}, not {shown(value)}", field=name, value=value)

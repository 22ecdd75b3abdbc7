"""The events that a subscription has received and the application has not taken yet: a bounded queue, and counters.

When the queue is full, the oldest event is dropped and counted. So an application that falls behind sees recent events,
knows how many it missed, and slows nobody down.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from pleroma.errors import ClientError
from pleroma.wire import EventPacket

QUEUE_EVENTS = 10_000


@dataclass(slots=True)
class SubscriptionInfo:
    """Counters since the client subscribed."""

    delivered: int = 0
    """Events that matched and were put into the queue."""
    dropped: int = 0
    """Delivered events that left the queue unread, because it was full."""
    wanted: int = 0
    """Packets from the network with an event that matches; what several here match is charged to one of them."""
    wasted: int = 0
    """Packets from the network that came because of this subscription, with an event that nothing here matches."""
    duplicates: int = 0
    """Matching events that came once more."""
    forged: int = 0
    """Packets whose tag is not genuine; of several subscriptions that they could be for, one is charged."""
    missed: int = 0
    """Events that never came though later ones of their publisher did; counted only where every event is wanted."""

    def copy(self) -> SubscriptionInfo:
        return replace(self)

    def since(self, earlier: SubscriptionInfo) -> dict[str, int]:
        """By how much each counter is larger than it was earlier."""
        return {name: getattr(self, name) - getattr(earlier, name) for name in self.__slots__}


class Inbox:
    """`put` and `take` may be called from different threads."""

    __slots__ = ("_waiting", "info", "limit")

    def __init__(self, limit: int = QUEUE_EVENTS) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ClientError(f"a queue has room for at least one event, not {limit!r}", field="queue", value=limit)
        self.limit = limit
        self.info = SubscriptionInfo()
        self._waiting: deque[EventPacket] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, packet: EventPacket) -> None:
        waiting = self._waiting
        if len(waiting) >= self.limit:
            waiting.popleft()
            self.info.dropped += 1
        waiting.append(packet)
        self.info.delivered += 1

    def take(self) -> EventPacket | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

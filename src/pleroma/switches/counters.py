"""What the embedded network counts while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """One direction of a cable: sent = received + lost + still under way."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class PortCounters:
    """A switch's own view of one of its ports, as OpenFlow reports it."""

    received: int
    received_bytes: int
    sent: int
    sent_bytes: int


@dataclass(slots=True)
class SwitchCounters:
    """`misses` matched no rule; `unconnected` were to leave by a port with nothing behind it. Both are dropped."""

    lookups: int = 0
    misses: int = 0
    unconnected: int = 0

"""What the embedded network counts while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LineCounters:
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


@dataclass(slots=True)
class HostCounters:
    """What passed the UDP port of a live host. Bytes are those of the packets, without the frames around them.

    `published` came from attached sockets and entered the network; `looped` of them met tables that lead in circles.
    `delivered` is counted once for every attached socket; `unclaimed` came while there was none, and `dropped` the
    operating system did not take. `unattached`, `malformed`, `refused` and `unadvertised` are frames that were thrown
    away: from a socket that is not attached, of no known form, with a secret that is not known, and with an event that
    the host has not advertised. `forged` are events under the number of somebody else's advertisement.
    """

    published: int = 0
    published_bytes: int = 0
    looped: int = 0
    delivered: int = 0
    delivered_bytes: int = 0
    unclaimed: int = 0
    dropped: int = 0
    unattached: int = 0
    malformed: int = 0
    refused: int = 0
    unadvertised: int = 0
    forged: int = 0

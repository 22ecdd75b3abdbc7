"""Packets: an event is addressed by its dz up to the last switch, and to the subscriber's address from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pleroma.errors import RoutingError
from pleroma.index.dz import Dz
from pleroma.routing.topology import HostId

EVENT_SIZE = 100
"""Bytes of an event on the wire, if no other size is given."""


@dataclass(frozen=True, slots=True)
class Packet:
    """`destination` is set by a switch that rewrites; until then the dz is the destination."""

    dz: Dz
    size: int = EVENT_SIZE
    payload: Any = None
    destination: str | None = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise RoutingError(f"a packet has no size of {self.size} bytes", field="size", value=self.size)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A packet that came to the host it is addressed to, after `hops` switches."""

    host: HostId
    packet: Packet
    time: float
    hops: int

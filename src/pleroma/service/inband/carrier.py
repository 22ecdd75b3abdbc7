"""What an in-band server needs from the network below it: a carrier of datagrams, and admission of hosts.

Switches carry requests as packets that they pass up, and a broker as datagrams at its UDP port. Both are given to
`InbandServer`, which knows neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol, TypeVar

from pleroma.routing import Host, HostId
from pleroma.routing.presence import Place

Arrival_contra = TypeVar("Arrival_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a datagram came from, and so where answers go."""

    place: Place
    ethernet: str
    address: IPv4Address | IPv6Address
    port: int


class InbandCarrier(Protocol[Arrival_contra]):
    """Reads what arrives, in whatever form the network delivers it, and sends answers."""

    def place(self, arrival: Arrival_contra) -> Place:
        """Where something arrived. The server limits arrivals by place before it reads them."""

    def origin(self, arrival: Arrival_contra) -> str:
        """Who shares a limit of arrivals: all places of one machine, if the network can tell."""

    def read(self, arrival: Arrival_contra) -> tuple[Peer, bytes] | None:
        """The sender and the payload; None if it is no datagram to the controller."""

    def send(self, peer: Peer, data: bytes) -> bool:
        """Send a datagram to a peer; False if it could not be sent."""


class InbandAdmission(Protocol):
    """Tells which host a peer is."""

    def host_at(self, place: Place) -> Host | None:
        """The host that is known to be at a place."""

    async def admit(self, peer: Peer, wanted_name: str) -> HostId:
        """The host that the peer is; `wanted_name` is for a new one. Raises `NotAllowed` if it may not be there."""

"""In-band requests through switches: packets that they pass up, and answers that they put out at a port."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

from pleroma.routing import Port, SwitchId
from pleroma.routing.presence import Place
from pleroma.service.inband.carrier import Peer
from pleroma.switches.openflow.frames import Datagram
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.ports import CONTROL_PORT

REPLIES_FROM: dict[int, IPv4Address | IPv6Address] = {4: IPv4Address("169.254.112.108"), 6: IPv6Address("fe80::706c")}
"""By IP version, the source address of answers: the multicast address of requests cannot be a source."""
_REPLIES_FROM_MAC = "02:00:00:00:00:00"


class SwitchCarrier:
    """`put_out` puts a frame out at a port of a switch; it returns False if the switch is not there."""

    def __init__(self, put_out: Callable[[SwitchId, Port, bytes], bool]) -> None:
        self._put_out = put_out

    def place(self, arrival: Arrival) -> Place:
        return arrival.switch, arrival.port

    def origin(self, arrival: Arrival) -> str:
        """A port of a switch is one machine, and addresses are what it says they are."""
        return f"{arrival.switch} {arrival.port}"

    def read(self, arrival: Arrival) -> tuple[Peer, bytes] | None:
        datagram = Datagram.unpack(arrival.frame)
        if datagram is None or datagram.destination[1] != CONTROL_PORT:
            return None
        address, port = datagram.source
        if address.is_multicast or address.is_unspecified:
            return None
        return Peer(self.place(arrival), datagram.source_mac, address, port), datagram.payload

    def send(self, peer: Peer, data: bytes) -> bool:
        source = REPLIES_FROM[peer.address.version], CONTROL_PORT
        frame = Datagram(_REPLIES_FROM_MAC, peer.ethernet, source, (peer.address, peer.port), data).pack()
        return self._put_out(*peer.place, frame)

"""Ethernet frames that pass between a switch and the controller: UDP datagrams, and beacons by LLDP.

A beacon goes out at one port and comes in at another, which tells that the two are joined. It is signed, or else a host
could invent links and have events sent to itself.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from os_ken.lib.packet import ethernet, ipv4, ipv6, lldp, udp
from os_ken.lib.packet.packet import Packet

_LLDP = "01:80:c2:00:00:0e"
_SENDER = "02:00:00:00:00:00"
_OURS = b"PLR"
_LOCAL = 7  # the sub-type of names that only their owner understands
_SECONDS = 10
_SIGNATURE = 16
MAX_DOMAIN = 64


@dataclass(frozen=True, slots=True)
class Datagram:
    """A UDP datagram in its frame; `source` and `destination` are (address, port)."""

    source_mac: str
    destination_mac: str
    source: tuple[IPv4Address | IPv6Address, int]
    destination: tuple[IPv4Address | IPv6Address, int]
    payload: bytes

    def pack(self) -> bytes:
        frame = Packet()
        (source, source_port), (destination, port) = self.source, self.destination
        v6 = destination.version == 6
        frame.add_protocol(ethernet.ethernet(self.destination_mac, self.source_mac, 0x86DD if v6 else 0x0800))
        kind = ipv6.ipv6 if v6 else ipv4.ipv4
        protocol = {"nxt" if v6 else "proto": 17}
        frame.add_protocol(kind(src=str(source), dst=str(destination), **protocol))
        frame.add_protocol(udp.udp(source_port, port))
        frame.add_protocol(self.payload)
        frame.serialize()
        return bytes(frame.data)

    @classmethod
    def unpack(cls, frame: bytes) -> Datagram | None:
        """None if it is anything else, or damaged."""
        layers = _layers(frame)
        if len(layers) != 4:
            return None
        link, network, transport, payload = layers
        if not isinstance(network, (ipv4.ipv4, ipv6.ipv6)) or not isinstance(transport, udp.udp):
            return None
        if transport.total_length != 8 + len(payload):
            return None
        return cls(
            link.src,
            link.dst,
            (ip_address(network.src), transport.src_port),
            (ip_address(network.dst), transport.dst_port),
            bytes(payload),
        )


@dataclass(frozen=True, slots=True)
class Beacon:
    """Sent out at `port` of the switch `datapath` by the controller of a domain."""

    datapath: int
    port: int
    domain: str

    def pack(self, key: bytes) -> bytes:
        frame = Packet()
        frame.add_protocol(ethernet.ethernet(_LLDP, _SENDER, 0x88CC))
        frame.add_protocol(
            lldp.lldp(
                [
                    lldp.ChassisID(subtype=_LOCAL, chassis_id=b"%016x" % self.datapath),
                    lldp.PortID(subtype=_LOCAL, port_id=b"%d" % self.port),
                    lldp.TTL(ttl=_SECONDS),
                    lldp.OrganizationallySpecific(oui=_OURS, subtype=1, info=self._sign(key) + self.domain.encode()),
                    lldp.End(),
                ]
            )
        )
        frame.serialize()
        return bytes(frame.data)

    @classmethod
    def unpack(cls, frame: bytes, key: bytes) -> tuple[Beacon, bool] | None:
        """A beacon, and whether it carries our signature; None if the frame is no beacon of any controller of ours."""
        layers = _layers(frame)
        if len(layers) < 2 or not isinstance(layers[1], lldp.lldp):
            return None
        found = {type(tlv): tlv for tlv in layers[1].tlvs}
        chassis, port, ours = (found.get(t) for t in (lldp.ChassisID, lldp.PortID, lldp.OrganizationallySpecific))
        if chassis is None or port is None or ours is None or bytes(ours.oui) != _OURS:
            return None
        info = bytes(ours.info)
        try:
            domain = info[_SIGNATURE:].decode()
            beacon = cls(int(bytes(chassis.chassis_id), 16), int(bytes(port.port_id)), domain)
        except ValueError:
            return None
        return beacon, hmac.compare_digest(info[:_SIGNATURE], beacon._sign(key))

    def _sign(self, key: bytes) -> bytes:
        said = f"{self.datapath:x} {self.port} {self.domain}"
        return hmac.new(key, said.encode(), hashlib.sha256).digest()[:_SIGNATURE]


def _layers(frame: bytes) -> list[Any]:
    """What os-ken finds in a frame, outermost first; nothing where it stumbles, as it does in many ways."""
    try:
        return list(Packet(frame).protocols)
    except Exception:
        return []

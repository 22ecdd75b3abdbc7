"""Ethernet frames that pass between a switch and the controller: UDP datagrams, and beacons by LLDP.

A beacon leaves by one port and arrives at another: the two ports are linked. Beacons are signed; otherwise a host could
invent links and have events sent to itself.
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
_BEACON_TTL_SECONDS = 10
_SIGNATURE_BYTES = 16


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
        """Read a frame; None if it is damaged or carries no UDP datagram."""
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
    """A frame that the controller of a domain sends out at `port` of the switch `datapath`."""

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
                    lldp.TTL(ttl=_BEACON_TTL_SECONDS),
                    lldp.OrganizationallySpecific(oui=_OURS, subtype=1, info=self._sign(key) + self.domain.encode()),
                    lldp.End(),
                ]
            )
        )
        frame.serialize()
        return bytes(frame.data)

    @classmethod
    def unpack(cls, frame: bytes, key: bytes) -> tuple[Beacon, bool] | None:
        """Read a frame as a beacon, and say whether it is signed with this key; None if it is no beacon at all."""
        layers = _layers(frame)
        if len(layers) < 2 or not isinstance(layers[1], lldp.lldp):
            return None
        found = {type(tlv): tlv for tlv in layers[1].tlvs}
        chassis, port, ours = (found.get(t) for t in (lldp.ChassisID, lldp.PortID, lldp.OrganizationallySpecific))
        if chassis is None or port is None or ours is None or bytes(ours.oui) != _OURS:
            return None
        info = bytes(ours.info)
        try:
            domain = info[_SIGNATURE_BYTES:].decode()
            beacon = cls(int(bytes(chassis.chassis_id), 16), int(bytes(port.port_id)), domain)
        except ValueError:
            return None
        return beacon, hmac.compare_digest(info[:_SIGNATURE_BYTES], beacon._sign(key))

    def _sign(self, key: bytes) -> bytes:
        said = f"{self.datapath:x} {self.port} {self.domain}"
        return hmac.new(key, said.encode(), hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def _layers(frame: bytes) -> list[Any]:
    """The layers of a frame as os-ken reads them, outermost first; none if it raises, whatever it raises."""
    try:
        return list(Packet(frame).protocols)
    except Exception:
        return []

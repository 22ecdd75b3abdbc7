"""Ethernet frames that pass between a switch and the controller: UDP datagrams, and beacons by LLDP.

Hosts can have datagrams passed up as fast as they like, so these are read by hand: os-ken's packet library takes many
times as long. A beacon leaves by one port and arrives at another: the two ports are linked. Beacons are signed;
otherwise a host could invent links and have events sent to itself.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Any

from os_ken.lib.packet import ethernet, lldp
from os_ken.lib.packet.packet import Packet

LLDP_TYPE = b"\x88\xcc"
_LLDP = "01:80:c2:00:00:0e"
_SENDER = "02:00:00:00:00:00"
_OURS = b"PLR"
_LOCAL = 7  # the sub-type of names that only their owner understands
_BEACON_TTL_SECONDS = 10
_SIGNATURE_BYTES = 16
_ETHERNET_BYTES = 14
_IPV4 = b"\x08\x00"
_IPV6 = b"\x86\xdd"
_UDP = 17
_HOPS = 255
_IPV4_HEAD = Struct("!BBHHHBBH4s4s")
_IPV6_HEAD = Struct("!IHBB16s16s")
_UDP_HEAD = Struct("!HHHH")


@dataclass(frozen=True, slots=True)
class Datagram:
    """A UDP datagram in its frame; `source` and `destination` are (address, port)."""

    source_mac: str
    destination_mac: str
    source: tuple[IPv4Address | IPv6Address, int]
    destination: tuple[IPv4Address | IPv6Address, int]
    payload: bytes

    def pack(self) -> bytes:
        (source, source_port), (destination, port) = self.source, self.destination
        ends, size = source.packed + destination.packed, _UDP_HEAD.size + len(self.payload)
        unchecked = _UDP_HEAD.pack(source_port, port, size, 0) + self.payload
        checksum = _checksum(ends + size.to_bytes(4) + _UDP.to_bytes(4) + unchecked) or 0xFFFF
        datagram = _UDP_HEAD.pack(source_port, port, size, checksum) + self.payload
        if destination.version == 6:
            kind, head = _IPV6, _IPV6_HEAD.pack(6 << 28, size, _UDP, _HOPS, source.packed, destination.packed)
        else:
            fields = 0x45, 0, _IPV4_HEAD.size + size, 0, 0, _HOPS, _UDP
            checked = _checksum(_IPV4_HEAD.pack(*fields, 0, source.packed, destination.packed))
            kind, head = _IPV4, _IPV4_HEAD.pack(*fields, checked, source.packed, destination.packed)
        return _mac_bytes(self.destination_mac) + _mac_bytes(self.source_mac) + kind + head + datagram

    @classmethod
    def unpack(cls, frame: bytes) -> Datagram | None:
        """Read a frame; None if it is cut short or carries no whole UDP datagram right behind its IP header."""
        kind, packet = frame[12:_ETHERNET_BYTES], frame[_ETHERNET_BYTES:]
        source: IPv4Address | IPv6Address
        destination: IPv4Address | IPv6Address
        if kind == _IPV6 and len(packet) > _IPV6_HEAD.size and packet[0] >> 4 == 6:
            _, size, protocol, _, first, second = _IPV6_HEAD.unpack_from(packet)
            source, destination, behind = IPv6Address(first), IPv6Address(second), _IPV6_HEAD.size
        elif kind == _IPV4 and len(packet) > _IPV4_HEAD.size and packet[0] >> 4 == 4:
            _, _, total, _, fragment, _, protocol, _, first, second = _IPV4_HEAD.unpack_from(packet)
            behind = 4 * (packet[0] & 0xF)
            if behind < _IPV4_HEAD.size or fragment & 0x3FFF:  # more fragments follow, or this is not the first
                return None
            source, destination, size = IPv4Address(first), IPv4Address(second), total - behind
        else:
            return None
        datagram = packet[behind : behind + max(size, 0)]
        if protocol != _UDP or not _UDP_HEAD.size < size == len(datagram):
            return None
        source_port, port, length, _ = _UDP_HEAD.unpack_from(datagram)
        if length != size:
            return None
        ends = (source, source_port), (destination, port)
        return cls(_mac_text(frame[6:12]), _mac_text(frame[:6]), *ends, datagram[_UDP_HEAD.size :])


def _checksum(data: bytes) -> int:
    """The checksum of the internet protocols (RFC 1071)."""
    total = int.from_bytes(data + bytes(len(data) % 2)) % 0xFFFF  # 2 ** 16 is 1 modulo 2 ** 16 - 1
    return 0xFFFF - total if total or not any(data) else 0


def _mac_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _mac_text(mac: bytes) -> str:
    return mac.hex(":")


@dataclass(frozen=True, slots=True)
class Beacon:
    """A frame that the controller of a domain sends out at `port` of the switch `datapath`, in a round of beacons."""

    datapath: int
    port: int
    domain: str
    round: int = 0

    def pack(self, key: bytes) -> bytes:
        frame = Packet()
        frame.add_protocol(ethernet.ethernet(_LLDP, _SENDER, 0x88CC))
        frame.add_protocol(
            lldp.lldp(
                [
                    lldp.ChassisID(subtype=_LOCAL, chassis_id=b"%016x" % self.datapath),
                    lldp.PortID(subtype=_LOCAL, port_id=b"%d" % self.port),
                    lldp.TTL(ttl=_BEACON_TTL_SECONDS),
                    lldp.OrganizationallySpecific(oui=_OURS, subtype=1, info=self._sign(key) + self._said),
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
            domain, _, number = info[_SIGNATURE_BYTES:].decode().rpartition("\0")
            beacon = cls(int(bytes(chassis.chassis_id), 16), int(bytes(port.port_id)), domain, int(number))
        except ValueError:
            return None
        return beacon, hmac.compare_digest(info[:_SIGNATURE_BYTES], beacon._sign(key))

    @property
    def _said(self) -> bytes:
        return f"{self.domain}\0{self.round}".encode()

    def _sign(self, key: bytes) -> bytes:
        said = f"{self.datapath:x} {self.port} ".encode() + self._said
        return hmac.new(key, said, hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def _layers(frame: bytes) -> list[Any]:
    """The layers of a frame as os-ken reads them, outermost first; none if it raises, whatever it raises."""
    try:
        return list(Packet(frame).protocols)
    except Exception:
        return []

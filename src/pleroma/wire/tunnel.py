"""The frame in which the embedded network carries a packet between a host and its simulated switch.

A datagram on the loopback interface is addressed to a process, so the destination that a real packet has in its IPv6
header travels in front of it: `IPV6.address(dz)` of an event, or the subscriber's own address after the last switch
rewrote it. The packet behind it is, byte for byte, what a real network would carry.
"""

from __future__ import annotations

from ipaddress import IPv6Address

from pleroma.errors import WireError, shown
from pleroma.index.address import Address
from pleroma.wire.header import MAX_PACKET_BYTES, cut_short, too_large

TUNNEL_MAGIC = b"PLT"
TUNNEL_VERSION = 1
TUNNEL_START = TUNNEL_MAGIC + bytes((TUNNEL_VERSION,))
TUNNEL_HEAD_BYTES = len(TUNNEL_START) + 16


def wrap(address: Address, payload: bytes) -> bytes:
    if not isinstance(address, IPv6Address) or address.scope_id is not None:
        raise WireError(f"{shown(address)} is not a plain IPv6 address", field="address", value=address)
    _check(payload)
    return TUNNEL_START + address.packed + payload


def unwrap(frame: bytes) -> tuple[IPv6Address, bytes]:
    if frame[:4] != TUNNEL_START:
        raise wrong_start(frame, TUNNEL_START, TUNNEL_HEAD_BYTES)
    if len(frame) < TUNNEL_HEAD_BYTES:
        raise cut_short(frame, TUNNEL_HEAD_BYTES)
    payload = frame[TUNNEL_HEAD_BYTES:]
    _check(payload)
    return IPv6Address(frame[4:TUNNEL_HEAD_BYTES]), payload


def _check(payload: bytes) -> None:
    if not payload:
        raise WireError("a frame without a packet", field="payload", value=payload)
    if len(payload) > MAX_PACKET_BYTES:
        raise too_large(len(payload))


def wrong_start(frame: bytes, start: bytes, needed: int) -> WireError:
    """The error of a frame whose first four bytes are not `start`, a magic and a version."""
    magic, version = start[:3], start[3]
    if start.startswith(frame):
        return cut_short(frame, needed)
    if frame[:3] != magic:
        return WireError(f"{shown(frame[:3])} does not begin a frame, {magic!r} does", field="magic", value=frame[:3])
    return WireError(f"{frame[3]} is not known, only {version} is", field="version", value=frame[3])

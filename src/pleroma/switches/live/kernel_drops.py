"""Packets that the Linux kernel dropped because the buffer of a UDP socket was full.

The sender does not learn of these, and Python's socket module cannot ask for them; but /proc/net/udp counts them for
every socket of the machine, of whatever process.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from pleroma.wire.socket_sessions import SocketAddress

PROC_NET_UDP = Path("/proc/net/udp")


def kernel_drops(source: Path = PROC_NET_UDP) -> Mapping[SocketAddress, int] | None:
    """The packets dropped by the address that the socket is bound to; None where there is no /proc/net/udp."""
    try:
        rows = source.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    found: dict[SocketAddress, int] = {}
    for row in rows:
        fields = row.split()
        place, port = fields[1].split(":")
        packed = int(place, 16).to_bytes(4, sys.byteorder)  # printed as a number, stored as an address
        bound = socket.inet_ntoa(packed), int(port, 16)
        found[bound] = found.get(bound, 0) + int(fields[-1])
    return found


def dropped_at(drops: Mapping[SocketAddress, int], address: SocketAddress) -> int:
    """The packets dropped at the socket that an address reaches, which may be bound to all addresses."""
    return drops.get(address, 0) or drops.get(("0.0.0.0", address[1]), 0)  # noqa: S104 (nothing is bound here)

"""What the kernel dropped because a UDP socket's buffer was full, from where Linux tells it.

The sender is told nothing of it, and Python's socket module has no name for asking; but /proc/net/udp has a count for
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
    """By the address that the socket is bound to; None where it cannot be known."""
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
    """For the socket that is reached at an address, which may be bound to any."""
    return drops.get(address, 0) or drops.get(("0.0.0.0", address[1]), 0)  # noqa: S104 (nothing is bound here)

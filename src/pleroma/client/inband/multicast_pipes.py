"""`inband://`: sockets that send to the controller's multicast address, one for each interface of this machine.

A client does not know which interface leads to switches of ours. So it says hello at all of them, and the conversation
goes on where the hello is answered. The packets do not leave the link.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

from pleroma.client.inband.conversation import Pipe
from pleroma.client.inband.datagram_pipe import DatagramPipe
from pleroma.errors import ClientError
from pleroma.wire.datagram_socket import open_socket
from pleroma.wire.ports import CONTROL_PORT

MAX_INTERFACES = 16


def open_multicast_pipes(
    addresses: Iterable[IPv4Address | IPv6Address], interface: str | None, on_datagram: Callable[[Pipe, bytes], None]
) -> Sequence[Pipe]:
    """A pipe for each address and interface that a socket can be had for; an error if there is none at all."""
    pipes: list[Pipe] = []
    failure: OSError | None = None
    numbers = interfaces(interface)
    for address in addresses:
        for number in numbers:
            try:
                pipes.append(_pipe(address, number, on_datagram))
            except OSError as error:
                failure = error
    if not pipes:
        reason = str(failure) if failure else "no interface leads out of this machine"
        raise ClientError(f"no way to a controller: {reason}", field="url")
    return pipes


def interfaces(name: str | None) -> list[int]:
    """The number of the interface with this name; without a name, of all that lead out of this machine."""
    there = socket.if_nameindex()
    if name is None:
        return [number for number, each in there if not each.startswith("lo")][:MAX_INTERFACES]
    found = [number for number, each in there if each == name]
    if not found:
        raise ClientError(f"there is no interface {name!r}", field="interface", value=name)
    return found


def _pipe(
    address: IPv4Address | IPv6Address, interface: int, on_datagram: Callable[[Pipe, bytes], None]
) -> DatagramPipe:
    if address.version == 6:
        multicast: tuple[int, int, int | bytes] = (socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface)
        family, anywhere = socket.AF_INET6, "::"
        to: tuple[str | int, ...] = (str(address), CONTROL_PORT, 0, interface)
    else:
        by_number = struct.pack("@4s4si", bytes(4), bytes(4), interface)
        multicast = (socket.IPPROTO_IP, socket.IP_MULTICAST_IF, by_number)
        family, anywhere = socket.AF_INET, "0.0.0.0"  # noqa: S104 (the network decides who comes here)
        to = (str(address), CONTROL_PORT)

    def prepare(opened: socket.socket) -> None:
        opened.setsockopt(*multicast)
        opened.bind((anywhere, 0))

    return DatagramPipe(open_socket(family, prepare), on_datagram, to)

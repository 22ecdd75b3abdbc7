"""Sockets to the controller's address in the network itself: one for each interface it may be behind.

Which of them leads to switches of ours nobody has to know: the hello goes out at all of them, and the conversation goes
on where it is answered. Packets do not leave the link.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

from pleroma.client.inband.conversation import Pipe
from pleroma.errors import ClientError
from pleroma.wire.ports import CONTROL_PORT

RECEIVE_BUFFER = 2**20
AT_ONCE = 64
MAX_INTERFACES = 16
"""Interfaces that are tried."""
_LARGEST = 65_536


class SocketPipe:
    def __init__(
        self, address: IPv4Address | IPv6Address, interface: int, received: Callable[[Pipe, bytes], None]
    ) -> None:
        self._received = received
        self._loop = asyncio.get_running_loop()
        v6 = address.version == 6
        self._to = (str(address), CONTROL_PORT, 0, interface) if v6 else (str(address), CONTROL_PORT)
        self._socket = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            send_at(self._socket, interface)
            self._socket.bind(("::" if v6 else "0.0.0.0", 0))  # noqa: S104 (the network decides who comes here)
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._drain)

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # no way there now: it is tried again, as if it had been lost
            self._socket.sendto(data, self._to)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _drain(self) -> None:
        for _ in range(AT_ONCE):
            try:
                data = self._socket.recv(_LARGEST)
            except OSError:
                return
            self._received(self, data)


def send_at(opened: socket.socket, interface: int) -> None:
    """Multicast packets of this socket go out at an interface, by its number."""
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface)
    else:
        opened.setsockopt(
            socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@4s4si", bytes(4), bytes(4), interface)
        )


def interfaces(name: str | None) -> list[int]:
    """The one of this name, or all that lead out of this machine."""
    there = socket.if_nameindex()
    if name is None:
        return [number for number, each in there if not each.startswith("lo")][:MAX_INTERFACES]
    found = [number for number, each in there if each == name]
    if not found:
        raise ClientError(f"there is no interface {name!r}", field="interface", value=name)
    return found


def open_sockets(
    addresses: Iterable[IPv4Address | IPv6Address], interface: str | None, received: Callable[[Pipe, bytes], None]
) -> Sequence[Pipe]:
    """As many as can be had."""
    opened: list[Pipe] = []
    failure: OSError | None = None
    numbers = interfaces(interface)
    for address in addresses:
        for number in numbers:
            try:
                opened.append(SocketPipe(address, number, received))
            except OSError as error:
                failure = error
    if not opened:
        reason = str(failure) if failure else "no interface leads out of this machine"
        raise ClientError(f"no way to a controller: {reason}", field="url")
    return opened

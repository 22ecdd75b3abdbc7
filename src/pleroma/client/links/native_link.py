"""The link into a network of real switches: one socket at the host's own address.

A packet is sent to the multicast address of its cell; the last switch rewrites the address to that of the receiving
host. No controller is involved, so a client goes on sending and receiving while the controller is away, for as long as
its lease keeps its registrations.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from pathlib import Path

from pleroma.client.links.network_link import EchoOnLoop, HostAttachment
from pleroma.errors import ClientError
from pleroma.wire.datagram_socket import DatagramSocket, ReceivedDatagram, open_socket
from pleroma.wire.ports import EVENTS_PORT

_ADDRESSES = Path("/proc/net/if_inet6")
_REASONS = {
    errno.EADDRINUSE: "another program on this host receives events already, and there can be one only",
    errno.EADDRNOTAVAIL: "this machine does not have that address, so it is another host",
}


class NativeLink:
    """`receive` gets every packet that arrives, `echo` every packet that was sent.

    No switch sends a packet back to the port it came from. So events that this client publishes and also subscribes to
    reach its subscriptions by `echo`.
    """

    def __init__(
        self,
        attachment: HostAttachment,
        receive: Callable[[bytes], None],
        echo: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.attachment = attachment
        self._receive = receive
        self._echo = EchoOnLoop(echo)
        address, port = attachment.where
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if (self._family == socket.AF_INET6) != (attachment.addresses.base.version == 6):
            reason = f"the host's address {address} and the events' {attachment.addresses.base} are of different kinds"
            raise ClientError(reason, field="attachment", value=address)

        def prepare(opened: socket.socket) -> None:
            _send_from(opened, address)
            opened.bind((address, port))

        try:
            self._socket = DatagramSocket(open_socket(self._family, prepare), self._receive_batch)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, str(error))
            raise ClientError(f"no socket at {address} port {port}: {reason}", field="host", value=address) from None

    @property
    def overrun(self) -> int:
        return self._socket.overrun

    def send(self, address: bytes, packet: bytes) -> bool:
        """From any thread; False if the kernel did not take it."""
        if self._socket.send(packet, (socket.inet_ntop(self._family, address), EVENTS_PORT)) is not None:
            return False
        self._echo(packet)
        return True

    async def attach(self) -> bool:
        return True

    async def stay(self) -> None:
        """For ever: the socket is the client's own, and nobody else can take it away."""
        await asyncio.Event().wait()

    def doubt(self) -> None:
        """Nothing to find out: the network is there whether the controller is or not."""

    def close(self) -> None:
        if not self._socket.is_closed:
            self._socket.read()
            self._socket.close()

    def _receive_batch(self, batch: Sequence[ReceivedDatagram]) -> None:
        for packet, _ in batch:
            self._receive(packet)


def _send_from(opened: socket.socket, address: str) -> None:
    """Multicast packets go out at the interface that has this address, and not back to this machine."""
    if opened.family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        return
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    if (interface := interface_of(address)) is not None:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface)


def interface_of(address: str) -> int | None:
    """The number of the interface that has an IPv6 address; None where the system does not tell, or has none."""
    with contextlib.suppress(OSError, ValueError):
        wanted = IPv6Address(address).packed.hex()
        for line in _ADDRESSES.read_text().splitlines():
            known, number, *_ = line.split()
            if known == wanted:
                return int(number, 16)
    return None

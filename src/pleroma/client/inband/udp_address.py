"""`udp://HOST:PORT`: a broker's API and its events at one UDP port, for programs that reach nothing else.

Requests are in-band messages with the same proof of the token; they only go another way, from one socket to one
address.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pleroma.client.inband.conversation import Pipe
from pleroma.client.inband.datagram_pipe import DatagramPipe
from pleroma.client.inband.transport import InbandTransport
from pleroma.errors import ClientError
from pleroma.wire.datagram_socket import open_socket
from pleroma.wire.socket_sessions import SocketAddress

UDP_SCHEME = "udp"


@dataclass(frozen=True, slots=True)
class UdpAddress:
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> UdpAddress:
        try:
            split = urlsplit(url)
            host, port = split.hostname, split.port
            extra = split.path not in ("", "/") or split.query or split.username
            if split.scheme != UDP_SCHEME or not host or not port or extra:
                raise ValueError("expected udp://HOST:PORT")
        except ValueError as error:
            raise ClientError(f"{url!r} is no address of a broker: {error}", field="url", value=url) from None
        return cls(host, port)

    def transport(self, principal: str | None, token: str | None) -> InbandTransport:
        return InbandTransport(self._open_pipes, principal, token)

    def _open_pipes(self, on_datagram: Callable[[Pipe, bytes], None]) -> Sequence[Pipe]:
        """A pipe for each address that the host's name has: the conversation goes on where the hello is answered."""
        pipes, failure = list[Pipe](), "it has no address"
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)
        except OSError as error:
            found, failure = [], str(error)
        for family, _, _, _, address in found:
            try:
                pipes.append(_pipe(family, address, on_datagram))
            except OSError as error:
                failure = str(error)
        if not pipes:
            raise ClientError(f"no way to {self.host} port {self.port}: {failure}", field="url", value=self.host)
        return pipes


def _pipe(family: int, address: SocketAddress, on_datagram: Callable[[Pipe, bytes], None]) -> DatagramPipe:
    """Its socket is connected, so the kernel passes on nothing but what comes from the broker's port."""
    return DatagramPipe(open_socket(family, lambda opened: opened.connect(address)), on_datagram)

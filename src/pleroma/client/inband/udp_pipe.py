"""`udp://HOST:PORT`: a broker's API and its events at one UDP port, for programs that reach nothing else.

Requests go as in-band messages do, with the same proof of the token; only the way is another: one socket to one
address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pleroma.client.inband.conversation import Pipe
from pleroma.client.inband.transport import InbandAddress, InbandTransport
from pleroma.errors import ClientError

UDP_SCHEME = "udp"
RECEIVE_BUFFER = 2**20
AT_ONCE = 64
_LARGEST = 65_536


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
        return InbandTransport(InbandAddress(()), principal, token, self._open)

    def _open(self, received: Callable[[Pipe, bytes], None]) -> Sequence[Pipe]:
        """One for each address that the host has: the conversation goes on where it is answered."""
        opened, failure = list[Pipe](), "it has no address"
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)
        except OSError as error:
            found, failure = [], str(error)
        for family, _, _, _, where in found:
            try:
                opened.append(UdpPipe(family, where, received))
            except OSError as error:
                failure = str(error)
        if not opened:
            raise ClientError(f"no way to {self.host} port {self.port}: {failure}", field="url", value=self.host)
        return opened


class UdpPipe:
    """A connected socket: the kernel passes on nothing but what comes from the broker's port."""

    def __init__(
        self, family: int, where: tuple[str | int | bytes, ...], received: Callable[[Pipe, bytes], None]
    ) -> None:
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            self._socket.connect(where)
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._drain)

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody is there now: it is tried again, as if it had been lost
            self._socket.send(data)

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

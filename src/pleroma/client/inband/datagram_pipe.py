"""One socket to the controller, as a conversation uses it: datagrams out, datagrams in, and none of them sure."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from pleroma.client.inband.conversation import Pipe
from pleroma.wire.datagram_socket import DatagramSocket, ReceivedDatagram
from pleroma.wire.socket_sessions import SocketAddress


class DatagramPipe:
    """Sends to one address: `to`, or where the socket is connected. `on_datagram` gets the pipe and what arrives."""

    def __init__(
        self, opened: socket.socket, on_datagram: Callable[[Pipe, bytes], None], to: SocketAddress | None = None
    ) -> None:
        self._on_datagram = on_datagram
        self._to = to
        self._socket = DatagramSocket(opened, self._receive)

    def send(self, data: bytes) -> None:
        """A datagram that the kernel does not take is sent again later, as if it had been lost on the way."""
        self._socket.send(data, self._to)

    def close(self) -> None:
        self._socket.close()

    def _receive(self, batch: Sequence[ReceivedDatagram]) -> None:
        for data, _ in batch:
            self._on_datagram(self, data)

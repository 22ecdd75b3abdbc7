"""A UDP socket on the event loop: what clients, the broker and the hosts of the live network exchange datagrams with.

A host agent and its programs use it for the messages of a connection between Unix sockets.

Datagrams are read in batches. At most `max_per_wake` of them are taken each time the event loop finds the socket
readable, so that a flood of datagrams does not keep other tasks from running.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence

from pleroma.wire.socket_sessions import SocketAddress

ReceivedDatagram = tuple[bytes, SocketAddress]
"""The bytes, and where they came from."""

RECEIVE_BUFFER_BYTES = 4 * 2**20
MAX_DATAGRAMS_PER_WAKE = 256
_READ_BYTES = 2048
"""More than any frame of ours has. A longer datagram is cut here, and is refused as too large by whoever unpacks it."""
_END_OF_CONNECTION: ReceivedDatagram = (b"", None)  # type: ignore[assignment]
"""What reading gives at the end of a connection between Unix sockets; a datagram has an address."""
_MEMINFO = 55
"""SO_MEMINFO of Linux, which the socket module does not name: nine counters, the last of datagrams dropped."""


class DatagramSocket:
    """Takes over a socket that is bound or connected, and calls `on_batch` with the datagrams that arrive.

    `on_error` is called with an error that the system reports while the socket is read: on a connected socket, that
    nobody listens at the other end. Only `send` may be called from other threads than that of the event loop.
    """

    def __init__(
        self,
        opened: socket.socket,
        on_batch: Callable[[Sequence[ReceivedDatagram]], None],
        on_error: Callable[[OSError], None] = lambda _: None,
        *,
        max_per_wake: int = MAX_DATAGRAMS_PER_WAKE,
    ) -> None:
        self.socket = opened
        self._on_batch = on_batch
        self._on_error = on_error
        self._max_per_wake = max_per_wake
        self._loop = asyncio.get_running_loop()
        opened.setblocking(False)
        self._loop.add_reader(opened, self.read)

    @property
    def is_closed(self) -> bool:
        return self.socket.fileno() < 0

    @property
    def overrun(self) -> int:
        """Datagrams that the kernel dropped, because they were not read fast enough; 0 where it cannot tell."""
        try:
            return int(struct.unpack("9I", self.socket.getsockopt(socket.SOL_SOCKET, _MEMINFO, 36))[8])
        except (OSError, struct.error):
            return 0

    def send(self, data: bytes, to: SocketAddress | None = None) -> OSError | None:
        """Send a datagram to an address, or to where the socket is connected; returns why the kernel did not take it.

        `BlockingIOError` says that there is no room for it now.
        """
        try:
            if to is None:
                self.socket.send(data)
            else:
                self.socket.sendto(data, to)
        except OSError as error:
            return error
        return None

    def read(self) -> None:
        """Take a batch of the datagrams that wait, and hand it over."""
        batch, failure = list[ReceivedDatagram](), None
        receive, size = self.socket.recvfrom, _READ_BYTES
        try:
            for _ in range(self._max_per_wake):
                batch.append(receive(size))
        except BlockingIOError:
            pass
        except OSError as error:
            failure = error
        if batch and batch[-1] == _END_OF_CONNECTION:
            while batch and batch[-1] == _END_OF_CONNECTION:
                batch.pop()
            self._loop.remove_reader(self.socket)  # it would be readable for ever
            failure = ConnectionResetError("the other side has closed the connection")
        if batch:
            self._on_batch(batch)
        if failure is not None:
            self._on_error(failure)

    def close(self) -> None:
        """May be called twice. Datagrams that wait are not read."""
        if not self.is_closed:
            if not self._loop.is_closed():
                self._loop.remove_reader(self.socket)
            self.socket.close()


def open_socket(family: int, prepare: Callable[[socket.socket], object]) -> socket.socket:
    """A UDP socket with a large buffer that `prepare` has bound or connected; or a Unix socket that keeps messages."""
    opened = socket.socket(family, socket.SOCK_SEQPACKET if family == socket.AF_UNIX else socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        prepare(opened)
    except OSError:
        opened.close()
        raise
    return opened

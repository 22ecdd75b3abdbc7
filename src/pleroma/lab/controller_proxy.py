"""Connects the switches of a lab to their controller, as a process of its own: controller_proxy.py SOCKET=HOST:PORT...

The switches are in a network namespace that cannot reach this machine's loopback. The sockets that this process is
given listen inside that namespace; the process itself is outside. For every connection to a socket it connects to the
controller and passes bytes both ways. When either side ends or fails, so does the other; a controller that is not there
looks to a switch like one that closes at once. This file needs only the standard library and runs without the package.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from functools import partial

RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Side(asyncio.Protocol):
    """One side of a proxied connection; bytes that come here go to the other side, as fast as it takes them."""

    transport: asyncio.Transport
    other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 (for the types)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        other, self.other = self.other, None
        if other is None:
            return
        other.other = None
        if error is None:
            other.transport.close()  # sends what is left first
        else:
            other.abort()

    def abort(self) -> None:
        """Close with a reset, so that the peer does not take it for an orderly end."""
        if not self.transport.is_closing():
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        self.transport.abort()


class SwitchSide(Side):
    """The side of a switch. It is read only when the side of the controller is connected."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self._joining = asyncio.ensure_future(self._join())

    def connection_lost(self, error: Exception | None) -> None:
        self._joining.cancel()
        super().connection_lost(error)

    async def _join(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: ControllerSide(self), *self._address)
        except OSError:
            self.abort()


class ControllerSide(Side):
    """The side of the controller, for one switch."""

    def __init__(self, switch_side: SwitchSide) -> None:
        self._switch_side = switch_side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._switch_side.transport.is_closing():
            self.transport.close()
            return
        self.other, self._switch_side.other = self._switch_side, self
        self._switch_side.transport.resume_reading()


async def run_proxy(targets: list[tuple[int, str, int]]) -> None:
    loop = asyncio.get_running_loop()
    for descriptor, host, port in targets:
        await loop.create_server(partial(SwitchSide, host, port), sock=socket.socket(fileno=descriptor))
    await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    targets = []
    for argument in arguments:
        descriptor, _, address = argument.partition("=")
        host, _, port = address.rpartition(":")
        targets.append((int(descriptor), host.strip("[]"), int(port)))
    if os.fork():
        os._exit(0)
    os.setsid()
    asyncio.run(run_proxy(targets))


if __name__ == "__main__":
    main(sys.argv[1:])

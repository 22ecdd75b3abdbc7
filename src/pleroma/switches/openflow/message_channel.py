"""Bytes to and from one switch: whole messages in, messages out, and a bound on what waits in either direction.

A message has at most 65,535 bytes by its own header, so no more than that waits to be complete. Bytes that go out wait
in the transport: those who send many messages wait for `drain`, packets are left out when much is waiting, and the
channel of a switch that reads nothing at all is ended. A channel ends once, with a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

from pleroma.errors import SwitchError
from pleroma.switches.openflow.messages import HEADER

HIGH_WATER_BYTES = 256 << 10
"""Bytes waiting for a switch above which `drain` waits."""
MAX_WAITING_BYTES = 16 << 20
"""Bytes waiting for a switch above which its channel is ended."""
LATEST_VERSION = 0x0F
"""A message that claims a larger version is no OpenFlow."""
CHANNEL_CLOSE_SECONDS = 1.0
"""Seconds that an ended channel goes on sending what waits."""


class Frames:
    """Cuts a stream of bytes into messages, in whatever pieces it arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        stream = self._rest + data if self._rest else data
        at, end = 0, len(stream)
        try:
            while end - at >= HEADER.size:
                version, _, length, _ = HEADER.unpack_from(stream, at)
                if not 1 <= version <= LATEST_VERSION:
                    raise SwitchError(f"this is not OpenFlow: version byte 0x{version:02x}", field="version")
                if length < HEADER.size:
                    raise SwitchError(f"a message says it has {length} bytes; its header has 8", field="length")
                if end - at < length:
                    break
                at += length
                yield stream[at - length : at]
        finally:
            self._rest = stream[at:]


class MessageChannel(asyncio.Protocol):
    """The socket of one switch. Neither `on_open` nor `on_message` is called after `on_end`."""

    def __init__(
        self, on_open: Callable[[], None], on_message: Callable[[bytes], None], on_end: Callable[[str], None]
    ) -> None:
        self.peer = ""
        self.certificate: bytes | None = None
        """What the switch showed, in DER; None without TLS."""
        self.ended: str | None = None
        self._on_open = on_open
        self._on_message = on_message
        self._on_end = on_end
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._lost = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # as uvloop's are, though not by class
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "a local socket")
        encrypted = transport.get_extra_info("ssl_object")
        self.certificate = None if encrypted is None else encrypted.getpeercert(binary_form=True)
        self._on_open()

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                if self.ended is not None:
                    return
                self._on_message(message)
        except SwitchError as error:
            self.end(str(error))

    def eof_received(self) -> bool:
        self.end("the switch closed the connection")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lost.set()
        self.end(f"the connection broke: {error}" if error else "the switch closed the connection")
        if self._deadline is not None:
            self._deadline.cancel()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    @property
    def waiting(self) -> int:
        """Bytes that the switch has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def send(self, data: bytes) -> None:
        """Send without waiting. What is sent after the end is lost."""
        if self.ended is not None or self._transport is None:
            return
        self._transport.write(data)
        if self.waiting > MAX_WAITING_BYTES:
            self.end("the switch does not read what it is sent", abort=True)

    async def drain(self) -> None:
        await self._room.wait()

    def end(self, reason: str, *, abort: bool = False) -> None:
        if self.ended is not None:
            return
        self.ended = reason
        self._room.set()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()
                self._deadline = asyncio.get_running_loop().call_later(CHANNEL_CLOSE_SECONDS, self._transport.abort)
        self._on_end(reason)

    async def gone(self) -> None:
        """Wait until the socket is closed."""
        if self._transport is not None:
            await self._lost.wait()

"""The way into the embedded network: a socket to the host's port, and the attachment that it lives by.

The socket is connected, so the kernel itself refuses datagrams from anybody but the host's port, and says so when
nobody listens there any more. The address that a packet would have on a real network travels in front of it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

from pleroma.client.links.keepalive import KeepAlive
from pleroma.client.links.network_link import AT_ONCE, LARGEST, RECEIVE_BUFFER, HostAttachment, overrun
from pleroma.errors import ClientError, WireError
from pleroma.wire.attach import AttachKind, pack, unpack
from pleroma.wire.tunnel import TUNNEL_HEAD_BYTES, TUNNEL_START


class TunnelLink:
    """`receive` gets every packet that comes, `echo` every one that was sent.

    No network brings a packet back to the socket it came from, so what this client publishes and also wants must
    take the short way.
    """

    def __init__(
        self,
        attachment: HostAttachment,
        receive: Callable[[bytes], None],
        echo: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.attachment = attachment
        self._receive = receive
        self._echo = echo
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._alive = KeepAlive(attachment.seconds, self._loop.time())
        self._answer = asyncio.Event()
        self._secret = attachment.secret or b""
        self._attach = pack(AttachKind.ATTACH, self._secret)
        family = socket.AF_INET6 if ":" in attachment.where[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            self._socket.connect(attachment.where)
        except OSError as error:
            self._socket.close()
            raise ClientError(f"no socket to {attachment.where}: {error}", field="attachment") from None
        self._loop.add_reader(self._socket, self._drain)

    @property
    def overrun(self) -> int:
        return overrun(self._socket)

    def send(self, address: bytes, packet: bytes) -> bool:
        """From any thread; False if the kernel did not take it, or nobody is there to get it."""
        if self._alive.is_lost:
            return False
        try:
            self._socket.send(TUNNEL_START + address + packet)
        except BlockingIOError:
            return False
        except OSError:  # nobody there, or the socket is closed
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.doubt)
            return False
        if threading.get_ident() == self._thread:
            self._echo(packet)
        else:
            self._loop.call_soon_threadsafe(self._echo, packet)
        return True

    async def attach(self) -> bool:
        """Attach for the first time: whether it was granted."""
        while not self._alive.is_lost:
            await self._say_attach()
            if not self._alive.is_doubtful:
                return True
        return False

    async def stay(self) -> None:
        """Stay attached; returns when the attachment is lost."""
        while not self._alive.is_lost:
            await self._pause(self._alive.wait(self._loop.time()))
            if not self._alive.wait(self._loop.time()):
                await self._say_attach()

    def doubt(self) -> None:
        """Something suggests that the controller is gone: find out."""
        self._alive.doubt(self._loop.time())
        self._answer.set()

    def close(self) -> None:
        """Detach, after taking what has arrived."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        try:
            self._socket.send(pack(AttachKind.DETACH, self._secret))
            self._drain()
        except OSError:
            pass
        self._socket.close()

    async def _say_attach(self) -> None:
        self._answer.clear()
        self._alive.asked(self._loop.time())
        try:
            self._socket.send(self._attach)
        except BlockingIOError:
            pass
        except OSError:
            self._alive.refused()
            return
        await self._pause(self._alive.wait(self._loop.time()))

    async def _pause(self, seconds: float) -> None:
        """Until something happens, but not longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._answer.wait()
        except TimeoutError:
            pass
        self._answer.clear()

    def _drain(self) -> None:
        for _ in range(AT_ONCE):
            try:
                frame = self._socket.recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # refused: the port has no owner
                self._alive.refused()
                self._answer.set()
                return
            if frame.startswith(b"PLA"):
                self._heed(frame)
            else:
                self._receive(
                    frame[TUNNEL_HEAD_BYTES:] if frame.startswith(TUNNEL_START) else b""
                )  # which is malformed

    def _heed(self, frame: bytes) -> None:
        try:
            kind, secret = unpack(frame)
        except WireError:
            self._receive(b"")
            return
        if secret != self._secret:
            return
        if kind is AttachKind.ATTACHED:
            self._alive.answered(self._loop.time())
        elif kind is AttachKind.REFUSED:
            self._alive.refused()
        self._answer.set()

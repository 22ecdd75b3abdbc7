"""The link into the embedded network, to a broker or to the host agent: a socket that is attached to the other side's.

The socket is connected, so the kernel itself refuses datagrams from anybody but the other side's port, and reports when
nobody listens there any more. The address that a packet would have on a real network travels in front of it. To an
agent, the socket is a Unix socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from pleroma.client.links.keepalive import KeepAlive
from pleroma.client.links.network_link import EchoOnLoop, HostAttachment
from pleroma.errors import ClientError, WireError
from pleroma.wire.agent_socket import NOTICE_START, AgentNotice
from pleroma.wire.attach import ATTACH_MAGIC, AttachKind, pack, unpack
from pleroma.wire.datagram_socket import DatagramSocket, ReceivedDatagram, open_socket
from pleroma.wire.tunnel import TUNNEL_HEAD_BYTES, TUNNEL_START

_MALFORMED = b""
"""Handed over in place of a frame that cannot be read, so that it is counted."""


class TunnelLink:
    """`receive` gets every packet that arrives, `echo` every packet that was sent.

    The network does not bring a packet back to the socket it came from. So events that this client publishes and also
    subscribes to reach its subscriptions by `echo`.
    """

    def __init__(
        self,
        attachment: HostAttachment,
        receive: Callable[[bytes], None],
        echo: Callable[[bytes], None] = lambda _: None,
        charge: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self.attachment = attachment
        self._receive = receive
        self._echo = EchoOnLoop(echo)
        self._charge = charge
        self._told_overrun = 0
        """What the agent could not hand over, because this process did not read fast enough."""
        self._loop = asyncio.get_running_loop()
        self._alive = KeepAlive(attachment.seconds, self._loop.time())
        self._answer = asyncio.Event()
        self._is_refused = False
        """The kernel refused a datagram. Every second one would be taken and lost, so none is sent until the other side
        has answered.
        """
        self._secret = attachment.secret or b""
        self._attach = pack(AttachKind.ATTACH, self._secret)
        try:
            connected = _connected(*attachment.where)
        except OSError as error:
            raise ClientError(f"no socket to {attachment.where}: {error}", field="attachment") from None
        self._socket = DatagramSocket(connected, self._receive_batch, lambda _: self._refused())

    @property
    def overrun(self) -> int:
        return self._socket.overrun + self._told_overrun

    def send(self, address: bytes, packet: bytes) -> bool:
        """From any thread; False if the kernel did not take it, or nobody is there to get it."""
        if self._alive.is_lost or self._is_refused:
            return False
        failure = self._socket.send(TUNNEL_START + address + packet)
        if failure is not None:
            has_room = not isinstance(failure, BlockingIOError)
            if has_room and not self._loop.is_closed():  # nobody listens there, or this socket is closed
                self._is_refused = True
                self._loop.call_soon_threadsafe(self.doubt)
            return False
        self._echo(packet)
        return True

    async def attach(self) -> bool:
        while not self._alive.is_lost:
            await self._say_attach()
            if not self._alive.is_doubtful:
                return True
        return False

    async def stay(self) -> None:
        while not self._alive.is_lost:
            await self._wait_for_answer(self._alive.wait(self._loop.time()))
            if not self._alive.wait(self._loop.time()):
                await self._say_attach()

    def doubt(self) -> None:
        self._alive.doubt(self._loop.time())
        self._answer.set()

    def close(self) -> None:
        if not self._socket.is_closed:
            if self._socket.send(pack(AttachKind.DETACH, self._secret)) is None:
                self._socket.read()
            self._socket.close()

    async def _say_attach(self) -> None:
        self._answer.clear()
        self._alive.sent(self._loop.time())
        failure = self._socket.send(self._attach)
        if failure is not None and not isinstance(failure, BlockingIOError):
            self._alive.refused()
            return
        await self._wait_for_answer(self._alive.wait(self._loop.time()))

    async def _wait_for_answer(self, seconds: float) -> None:
        """Until the other side answers, or something else happens that `stay` has to look at; or for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._answer.wait()
        except TimeoutError:
            pass
        self._answer.clear()

    def _receive_batch(self, batch: Sequence[ReceivedDatagram]) -> None:
        for frame, _ in batch:
            if frame.startswith(TUNNEL_START):
                self._receive(frame[TUNNEL_HEAD_BYTES:])
            elif frame.startswith(ATTACH_MAGIC):
                self._take_answer(frame)
            elif frame.startswith(NOTICE_START):
                self._take_notice(frame)
            else:
                self._receive(_MALFORMED)

    def _take_answer(self, frame: bytes) -> None:
        try:
            kind, secret = unpack(frame)
        except WireError:
            self._receive(_MALFORMED)
            return
        if secret != self._secret:
            return
        if kind is AttachKind.REFUSED:
            self._refused()
            return
        if kind is AttachKind.ATTACHED:
            self._alive.answered(self._loop.time())
            self._is_refused = False
        self._answer.set()

    def _take_notice(self, frame: bytes) -> None:
        try:
            notice = AgentNotice.unpack(frame)
        except WireError:
            self._receive(_MALFORMED)
            return
        self._told_overrun = notice.overrun
        for subscription, (wasted, forged) in notice.counts.items():
            self._charge(subscription, wasted, forged)

    def _refused(self) -> None:
        """The other side does not know this socket, or no process listens there."""
        self._alive.refused()
        self._answer.set()


def _connected(host: str, port: int) -> socket.socket:
    """A socket to an address and port; or to the path of a Unix socket, and 0."""
    if host.startswith("/"):
        return open_socket(socket.AF_UNIX, lambda opened: opened.connect(host))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return open_socket(family, lambda opened: opened.connect((host, port)))

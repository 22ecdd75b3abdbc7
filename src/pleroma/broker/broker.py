"""The broker's data plane: one UDP socket that takes events from programs and passes each on to those that want it.

There is no dz here, and nothing comes in vain: an event is matched exactly with every subscription in force, and sent
once to each program that has one that matches, but never back to where it came from. What its sender has not
advertised goes nowhere. Whatever arrives, nothing raises; what is thrown away is counted (Zhao and Wu 2011, IV).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from pleroma.broker.broker_counters import BrokerCounters
from pleroma.broker.match_state import BrokerAdvertisement, MatchedSchema, MatchState
from pleroma.broker.programs import Program, ProgramOwner, Programs
from pleroma.content import Event
from pleroma.errors import WireError
from pleroma.wire import EventPacket, attach, inband_messages, tunnel
from pleroma.wire.header import MAX_PACKET_BYTES
from pleroma.wire.socket_sessions import SocketAddress

SOCKET_BUFFER_BYTES = 8 << 20
"""Bytes asked for, sending and receiving; the system may give less."""
MAX_FRAMES_PER_WAKE = 64
"""Frames taken before others have their turn on the event loop."""

_LARGEST = tunnel.TUNNEL_HEAD_BYTES + MAX_PACKET_BYTES
_NUMBER = slice(tunnel.TUNNEL_HEAD_BYTES + 2, tunnel.TUNNEL_HEAD_BYTES + 4)
"""Where the number of the schema is in a frame."""
_NOWHERE = tunnel.TUNNEL_START + bytes(tunnel.TUNNEL_HEAD_BYTES - len(tunnel.TUNNEL_START))
"""In front of packets that came without an address: nobody looks at it."""


class Broker:
    """Give it a bound socket; it is its own from then on, until `close`.

    `asked` gets the datagrams that are requests to the controller, and `onward` every event that was published here.
    """

    def __init__(
        self, taken: socket.socket, standing: MatchState, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counters = BrokerCounters()
        self.programs = Programs()
        self.standing = standing
        self.asked: Callable[[bytes, SocketAddress], None] | None = None
        self.onward: Callable[[BrokerAdvertisement, EventPacket], None] | None = None
        self._clock = clock
        self._socket = taken
        taken.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with suppress(OSError):
                taken.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(taken, self._drain)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Give up the socket. The counters stay."""
        if self._socket.fileno() >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket)
            self._socket.close()

    def admit(self, secret: bytes, owner: ProgramOwner, seconds: float) -> None:
        """Let a program with this secret attach a socket, for as long as it says so every `seconds`."""
        now = self._clock()
        self.programs.sessions.expire(now)
        self.programs.sessions.admit(secret, owner, seconds, now)

    def attached(self) -> int:
        """How many are admitted, attached or about to."""
        self.programs.sessions.expire(self._clock())
        return len(self.programs.sessions)

    def send(self, data: bytes, target: SocketAddress) -> bool:
        """A datagram from the broker's socket; False if the kernel did not take it."""
        try:
            self._socket.sendto(data, target)
        except OSError:  # it would have to wait, or cannot be sent: whoever reads slowly does not slow others
            return False
        return True

    def relay(self, space: MatchedSchema, packet: EventPacket) -> None:
        """An event from the broker above, with a publisher's number of this one's own."""
        self.counters.relayed += 1
        frame = _NOWHERE + space.codec.encode(packet)
        self._deliver(space, packet.event, frame, None)

    # -- what comes ----------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        self.programs.sessions.expire(self._clock())
        receive = self._socket.recvfrom
        for _ in range(MAX_FRAMES_PER_WAKE):
            try:
                frame, sender = receive(_LARGEST + 1)  # one byte more shows that it is too large
            except OSError:  # nothing waits any more
                return
            self.take(frame, sender)

    def take(self, frame: bytes, sender: SocketAddress) -> None:
        """A datagram from anybody."""
        start = frame[:4]
        if start == tunnel.TUNNEL_START:
            program = self.programs.sessions.sockets.get(sender)
            if program is None:
                self.counters.unattached += 1
            else:
                self._publish(frame, program)
        elif start == inband_messages.INBAND_START and self.asked is not None:
            self.asked(frame, sender)
        elif start == attach.ATTACH_START:
            self._attach(frame, sender)
        else:
            self.counters.malformed += 1

    def _publish(self, frame: bytes, program: Program) -> None:
        counters = self.counters
        space = self.standing.spaces.get(int.from_bytes(frame[_NUMBER]))
        if space is None:
            counters.malformed += len(frame) < _NUMBER.stop or len(frame) > _LARGEST
            counters.unadvertised += _NUMBER.stop <= len(frame) <= _LARGEST
            return
        try:
            packet = space.codec.decode(frame[tunnel.TUNNEL_HEAD_BYTES :])
        except WireError:
            counters.malformed += 1
            return
        promise = self.standing.promises.get(packet.publisher)
        event = packet.event
        if (
            promise is None
            or not promise.owner.has(program.owner)
            or promise.space is not space
            or not promise.has(event)
        ):
            counters.unadvertised += 1
            return
        counters.published += 1
        counters.published_bytes += len(frame) - tunnel.TUNNEL_HEAD_BYTES
        self._deliver(space, event, frame, program)
        if self.onward is not None:
            self.onward(promise, packet)

    def _deliver(self, space: MatchedSchema, event: Event, frame: bytes, sender: Program | None) -> None:
        counters, programs = self.counters, self.programs
        owners = space.owners(event)
        if not owners:
            counters.unwanted += 1
            return
        # programs of different owners can be the same, where one of them has no lease
        targets = (
            programs.of(*owners) if len(owners) == 1 else {each for owner in owners for each in programs.of(owner)}
        )
        if not targets:
            counters.unclaimed += 1
            return
        for target in targets:
            if target is sender or target.socket is None:
                continue
            if self.send(frame, target.socket):
                counters.delivered += 1
                counters.delivered_bytes += len(frame) - tunnel.TUNNEL_HEAD_BYTES
            else:
                counters.dropped += 1

    def _attach(self, frame: bytes, sender: SocketAddress) -> None:
        try:
            outcome = self.programs.sessions.take(frame, sender, self._clock())
        except WireError:
            self.counters.malformed += 1
            return
        if outcome.answer is not None:
            self.send(outcome.answer, sender)
        self.counters.refused += not outcome.known

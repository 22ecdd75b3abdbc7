"""The broker's data plane: one UDP socket that takes events from programs and passes each on to those that want it.

There is no dz here, and no event is delivered in vain: an event is matched exactly with every subscription in force,
and sent once to each program that has a matching one, but never back to its sender. An event that its sender has not
advertised is dropped, and so is one without the tag of its publisher, where events have tags. Nothing that arrives
raises an error; what is dropped is counted (Zhao and Wu 2011, IV).
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from pleroma.broker.broker_counters import BrokerCounters
from pleroma.broker.match_state import BrokerAdvertisement, MatchedSchema, MatchState
from pleroma.broker.programs import Program, ProgramOwner, Programs
from pleroma.content import Event
from pleroma.errors import WireError
from pleroma.wire import EventPacket, attach, inband_messages, tunnel
from pleroma.wire.datagram_socket import DatagramSocket, ReceivedDatagram
from pleroma.wire.header import MAX_PACKET_BYTES
from pleroma.wire.socket_sessions import SocketAddress

SOCKET_BUFFER_BYTES = 8 << 20
"""Asked for, sending and receiving; the system may give less."""
MAX_FRAMES_PER_WAKE = 64
"""Frames taken before other tasks have a turn on the event loop."""

_MAX_FRAME_BYTES = tunnel.TUNNEL_HEAD_BYTES + MAX_PACKET_BYTES
_NUMBER = slice(tunnel.TUNNEL_HEAD_BYTES + 2, tunnel.TUNNEL_HEAD_BYTES + 4)
"""Where the number of the schema is in a frame."""
_NO_ADDRESS = tunnel.TUNNEL_START + bytes(tunnel.TUNNEL_HEAD_BYTES - len(tunnel.TUNNEL_START))
"""In front of packets from the broker above, which have no address; programs do not look at it."""


class Broker:
    """Takes over a bound socket until `close`.

    `on_request` gets every datagram that is a request to the API, and returns whether it takes requests now. `pass_up`
    gets every event that was published here, and returns whether it could be passed up to the broker above.
    `on_forged` gets the program from whose socket a forged event came.
    """

    def __init__(
        self,
        bound: socket.socket,
        match_state: MatchState,
        *,
        on_request: Callable[[bytes, SocketAddress], bool] = lambda *_: False,
        pass_up: Callable[[BrokerAdvertisement, EventPacket], bool] | None = None,
        on_forged: Callable[[Program], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = BrokerCounters()
        self.published_by: Counter[str] = Counter()
        """By principal: the events that its programs published."""
        self.programs = Programs()
        self.match_state = match_state
        self._on_request = on_request
        self._pass_up = pass_up
        self._on_forged = on_forged
        self._clock = clock
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
        self._socket = DatagramSocket(bound, self._take_batch, max_per_wake=MAX_FRAMES_PER_WAKE)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.socket.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Give up the socket. The counters stay."""
        self._socket.close()

    def admit(
        self,
        secret: bytes,
        owner: ProgramOwner,
        seconds: float,
        on_end: Callable[[], None] = lambda: None,
        *,
        token: str | None = None,
    ) -> None:
        """Let a program with this secret attach a socket, for as long as it says so every `seconds`.

        `on_end` is called when it no longer does. `token` is the digest of the token that it showed.
        """
        now = self._clock()
        self.programs.sessions.expire(now)
        self.programs.sessions.admit(secret, owner, seconds, now, on_end, token=token)

    def attached(self) -> int:
        """How many programs are admitted, whether they have attached a socket or not yet."""
        self.programs.sessions.expire(self._clock())
        return len(self.programs.sessions)

    def forget(self, principal: str) -> None:
        """The principal was removed."""
        self.published_by.pop(principal, None)

    def send(self, data: bytes, target: SocketAddress) -> bool:
        """Send a datagram from the broker's socket; False if the kernel did not take it.

        The broker never waits for room, so that a program that reads slowly does not slow down others.
        """
        return self._socket.send(data, target) is None

    def relay(self, schema: MatchedSchema, packet: EventPacket) -> None:
        """Deliver an event from the broker above; its publisher's number is one that this broker gave out."""
        self.counters.relayed += 1
        data = schema.codec.encode(packet)
        if schema.seals is not None:
            data = schema.seals.sealed(data)
        elif schema.codec.schema.encrypted:  # this broker has no keys, and what is secret above does not go on in clear
            self.counters.unclaimed += 1
            return
        self._deliver(schema, packet.event, _NO_ADDRESS + data, None)

    def take(self, frame: bytes, sender: SocketAddress) -> None:
        """Handle a datagram from anybody."""
        start = frame[:4]
        if start == tunnel.TUNNEL_START:
            program = self.programs.sessions.sockets.get(sender)
            if program is None:
                self.counters.unattached += 1
            else:
                self._publish(frame, program)
        elif start == attach.ATTACH_START:
            self._attach(frame, sender)
        elif start != inband_messages.INBAND_START or not self._on_request(frame, sender):
            self.counters.malformed += 1

    def _take_batch(self, batch: Sequence[ReceivedDatagram]) -> None:
        self.programs.sessions.expire(self._clock())
        for frame, sender in batch:
            self.take(frame, sender)

    def _publish(self, frame: bytes, program: Program) -> None:
        counters = self.counters
        schema = self.match_state.schemas.get(int.from_bytes(frame[_NUMBER]))
        if schema is None:
            if _NUMBER.stop <= len(frame) <= _MAX_FRAME_BYTES:
                counters.unadvertised += 1
            else:
                counters.malformed += 1
            return
        data = frame[tunnel.TUNNEL_HEAD_BYTES :]
        seals, is_encrypted = schema.seals, schema.codec.schema.encrypted
        opened = data if seals is None or not is_encrypted else seals.opened(data)
        if opened is None:
            counters.forged += 1
            self._on_forged(program)
            return
        try:
            packet = schema.codec.decode(opened)
        except WireError:
            counters.malformed += 1
            return
        advertisement = self.match_state.advertisements.get(packet.publisher)
        event = packet.event
        if advertisement is None:
            counters.unadvertised += 1
            return
        is_genuine = seals is None or is_encrypted or seals.is_genuine(data)
        if not (advertisement.owner.has(program.owner) and is_genuine):
            counters.forged += 1
            self._on_forged(program)
            return
        if advertisement.schema is not schema or not advertisement.has(event):
            counters.unadvertised += 1
            return
        counters.published += 1
        self.published_by[program.owner.principal] += 1
        counters.published_bytes += len(frame) - tunnel.TUNNEL_HEAD_BYTES
        self._deliver(schema, event, frame, program)
        if self._pass_up is not None:
            if self._pass_up(advertisement, packet):
                counters.passed_up += 1
            else:
                counters.kept_back += 1

    def _deliver(self, schema: MatchedSchema, event: Event, frame: bytes, sender: Program | None) -> None:
        counters, programs = self.counters, self.programs
        owners = schema.owners(event)
        if not owners:
            counters.unwanted += 1
            return
        # two owners can have a program in common, where one of them has no lease
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

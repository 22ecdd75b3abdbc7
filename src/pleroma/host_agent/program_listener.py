"""The socket at which programs exchange events with the agent: a connection for each program, and a queue behind it.

A program shows the secret of its attachment first. The kernel keeps what the agent sends until the program reads it;
what does not fit waits here, up to a bound, and what is beyond that is lost to this program and to no other.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from pleroma.errors import WireError
from pleroma.host_agent.local_exchange import LocalExchange
from pleroma.host_agent.local_programs import LocalProgram, LocalPrograms
from pleroma.host_agent.unix_sockets import bind_private, user_of
from pleroma.wire.attach import ATTACH_START, AttachKind, pack, unpack
from pleroma.wire.datagram_socket import DatagramSocket, ReceivedDatagram

PROGRAM_BUFFER_BYTES = 2**20
"""Asked for, of what the kernel keeps for a program; the system may give less."""
MAX_PROGRAM_FRAMES_PER_WAKE = 64
MAX_UNKNOWN_CONNECTIONS = 64
"""Connections that have not shown a secret yet."""
NEWCOMER_SECONDS = 10.0
NO_DESCRIPTOR_SECONDS = 0.5
"""How long no connection is taken after the system had no descriptor left for one."""

log = logging.getLogger("pleroma.agent")


class QueuedConnection:
    """Messages to one program, in order. At most `max_queue_bytes` wait here; there is no room for more."""

    def __init__(
        self,
        opened: socket.socket,
        on_batch: Callable[[QueuedConnection, Sequence[ReceivedDatagram]], None],
        on_end: Callable[[QueuedConnection], None],
        max_queue_bytes: int,
    ) -> None:
        self.user = user_of(opened.fileno())
        self.program: LocalProgram | None = None
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PROGRAM_BUFFER_BYTES)
        self._on_end = on_end
        self._max_queue_bytes = max_queue_bytes
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._socket = DatagramSocket(
            opened,
            lambda batch: on_batch(self, batch),
            lambda _: on_end(self),
            max_per_wake=MAX_PROGRAM_FRAMES_PER_WAKE,
        )

    def send(self, frame: bytes) -> bool:
        if not self._queue:
            failure = self._socket.send(frame)
            if failure is None:
                return True
            if not isinstance(failure, BlockingIOError) or self._socket.is_closed:
                return False  # it is gone, and reading will tell
            self._loop.add_writer(self._socket.socket, self._flush)
        if self._queue_bytes + len(frame) > self._max_queue_bytes:
            return False
        self._queue.append(frame)
        self._queue_bytes += len(frame)
        return True

    def close(self) -> None:
        """May be called twice."""
        if not self._socket.is_closed:
            if not self._loop.is_closed():
                self._loop.remove_writer(self._socket.socket)
            self._queue.clear()
            self._socket.close()

    def _flush(self) -> None:
        while self._queue:
            failure = self._socket.send(self._queue[0])
            if isinstance(failure, BlockingIOError):
                return
            self._queue_bytes -= len(self._queue.popleft())
        self._loop.remove_writer(self._socket.socket)


class ProgramListener:
    """Takes connections from being entered until it is left."""

    def __init__(
        self, path: Path, group: str | None, programs: LocalPrograms, exchange: LocalExchange, max_queue_bytes: int
    ) -> None:
        self._path = path
        self._group = group
        self._programs = programs
        self._exchange = exchange
        self._max_queue_bytes = max_queue_bytes
        self._newcomers: dict[QueuedConnection, float] = {}
        """Connections that have shown no secret, by when they are closed."""

    def __enter__(self) -> ProgramListener:
        self._listening = bind_private(self._path, socket.SOCK_SEQPACKET, self._group)
        self._listening.listen()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listening, self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._path.unlink(missing_ok=True)
        for connection in list(self._newcomers):
            self._end(connection)

    def expire(self) -> None:
        """Close the connections that have shown no secret in time."""
        now = self._loop.time()
        for connection, ends in list(self._newcomers.items()):
            if ends <= now:
                self._end(connection)

    def _accept(self) -> None:
        for _ in range(MAX_UNKNOWN_CONNECTIONS):
            try:
                opened, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("a program cannot connect: %s", error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(NO_DESCRIPTOR_SECONDS, self._accept_again)
                return
            if len(self._newcomers) >= MAX_UNKNOWN_CONNECTIONS:
                self._end(self._who_makes_room())
            made = QueuedConnection(opened, self._take, self._end, self._max_queue_bytes)
            self._newcomers[made] = self._loop.time() + NEWCOMER_SECONDS

    def _who_makes_room(self) -> QueuedConnection:
        """The first newcomer of the user that has the most of them."""
        of_user = Counter(each.user.uid for each in self._newcomers)
        return max(self._newcomers, key=lambda each: of_user[each.user.uid])

    def _accept_again(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _take(self, connection: QueuedConnection, batch: Sequence[ReceivedDatagram]) -> None:
        for frame, _ in batch:
            if frame.startswith(ATTACH_START):
                self._attach(connection, frame)
            elif connection.program is not None:
                self._exchange.publish(connection.program, frame)
            else:
                self._end(connection)
                return

    def _attach(self, connection: QueuedConnection, frame: bytes) -> None:
        try:
            kind, secret = unpack(frame)
        except WireError:
            self._end(connection)
            return
        program = self._programs.with_secret(secret)
        if program is None or program.connection not in (None, connection) or connection.program not in (None, program):
            connection.send(pack(AttachKind.REFUSED, secret))
            self._end(connection)
        elif kind is AttachKind.DETACH:
            self._end(connection)
        elif kind is AttachKind.ATTACH:
            if connection.program is None:
                user = connection.user
                log.info("program %d of user %d, group %d is attached", user.pid, user.uid, user.gid)
                self._newcomers.pop(connection, None)
                connection.program, program.connection = program, connection
            connection.send(pack(AttachKind.ATTACHED, secret))

    def _end(self, connection: QueuedConnection) -> None:
        self._newcomers.pop(connection, None)
        program, connection.program = connection.program, None
        if program is not None:
            log.info("program %d of user %d has left", connection.user.pid, connection.user.uid)
            self._programs.end(program)
        connection.close()

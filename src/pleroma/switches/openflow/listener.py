"""The TCP port to which switches connect, with or without TLS; each gets a `Connection`.

With TLS both sides show a certificate of the same authority; a switch without one is turned away before its hello. The
number of those who have not said yet which switch they are is bounded, overall and from one address: anybody who
reaches the port can connect.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pleroma.control.log.private_files import check_key_file
from pleroma.errors import SetupError, SwitchError
from pleroma.switches.openflow.connection import ANSWER_SECONDS, NO_EVENTS, Connection, ConnectionEvents

OPENFLOW_PORT = 6653
"""The TCP port that is registered for OpenFlow."""
MAX_SWITCH_CONNECTIONS = 4096
"""Connections that may be open at once."""
MAX_WAITING_SWITCHES = 1024
"""Connections that have not shaken hands yet."""
MAX_WAITING_OF_AN_ADDRESS = 256
ACCEPT_RETRY_SECONDS = 0.1
"""The pause after a connection could not be accepted, as when there are no descriptors left."""


def tls_context(certificate: Path | str, key: Path | str, authority: Path | str) -> ssl.SSLContext:
    """A context that shows this certificate, and accepts only clients with a certificate of this authority."""
    check_key_file(Path(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise SetupError(f"these certificates cannot be used: {error}", field="tls", value=str(certificate)) from error
    return context


class SwitchListener:
    """Open it with `async with`. At port 0 it takes any port that is free, and `address` says which.

    `greet` is awaited for each connection once it is known which switch it is; when `greet` raises, the connection is
    closed. `events` are told what all connections say, also those that are not greeted yet.
    """

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        greet: Callable[[Connection], Awaitable[None]],
        events: ConnectionEvents = NO_EVENTS,
        *,
        idle: float = 2.0,
        dead: float = 6.0,
        handshake: float = ANSWER_SECONDS,
        max_connections: int = MAX_SWITCH_CONNECTIONS,
        max_waiting: int = MAX_WAITING_SWITCHES,
        max_waiting_of_an_address: int = MAX_WAITING_OF_AN_ADDRESS,
    ) -> None:
        self.address = address
        self.connections: set[Connection] = set()
        """All open connections, greeted or not."""
        self.turned_away: str | None = None
        """Why the last connection that was closed before its greeting was closed."""
        self._tls = tls
        self._greet = greet
        self._events = events
        self._idle = idle
        self._dead = dead
        self._handshake = handshake
        self._max_connections = max_connections
        self._max_waiting = max_waiting
        self._max_waiting_of_an_address = max_waiting_of_an_address
        self._waiting: Counter[str] = Counter()
        """By address: connections that have not shaken hands yet."""
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._served: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many connections have not shaken hands yet."""
        return self._waiting.total()

    async def __aenter__(self) -> Self:
        host, port = self.address
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listening = socket.create_server((host, port), family=family, backlog=MAX_WAITING_OF_AN_ADDRESS)
        except OSError as error:
            raise SetupError(f"cannot listen at {host} port {port}: {error}", field="address", value=port) from error
        self._listening.setblocking(False)
        self.address = self._listening.getsockname()[:2]
        self._accepting = asyncio.create_task(self._accept(self._listening), name="switch listener")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        everybody = list(self.connections)
        tasks = [*self._served, *([self._accepting] if self._accepting is not None else [])]
        for connection in everybody:
            connection.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
        for connection in everybody:
            await connection.channel.gone()
        self.connections.clear()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                self.turned_away = f"a connection could not be accepted: {error}"
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            full = self._is_full(address[0])
            if full is not None:
                self.turned_away = full
                accepted.close()
                continue
            task = loop.create_task(self._serve(accepted, address[0]), name="switch connection")
            self._served.add(task)
            task.add_done_callback(self._served.discard)

    def _is_full(self, address: str) -> str | None:
        """Why no other connection from this address is taken; None if it is."""
        if len(self.connections) >= self._max_connections:
            return f"there are {self._max_connections} connections, and no room for more"
        if self.waiting >= self._max_waiting or self._waiting[address] >= self._max_waiting_of_an_address:
            return f"too many connections wait to shake hands, {self._waiting[address]} of them from {address}"
        return None

    @contextmanager
    def _counted(self, address: str) -> Iterator[None]:
        self._waiting[address] += 1
        try:
            yield
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    async def _serve(self, accepted: socket.socket, address: str) -> None:
        connection = Connection(self._events, idle=self._idle, dead=self._dead)
        try:
            with self._counted(address):
                if not await self._open(connection, accepted):
                    return
                await connection.shake_hands(self._handshake)
            await self._greet(connection)
        except SwitchError as error:
            connection.close(str(error))
            self.turned_away = connection.closed
        except BaseException:
            connection.close("the controller could not greet it")
            raise
        finally:
            await connection.channel.gone()
            self.connections.discard(connection)

    async def _open(self, connection: Connection, accepted: socket.socket) -> bool:
        """Begin to talk, by TLS if that is wanted; False if it did not come to that."""
        loop, seconds = asyncio.get_running_loop(), None if self._tls is None else self._handshake
        try:
            await loop.connect_accepted_socket(
                lambda: connection.channel, accepted, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except (OSError, TimeoutError) as error:  # among them those of TLS
            self.turned_away = f"the connection broke: {error}"
            accepted.close()
            return False
        self.connections.add(connection)
        return True

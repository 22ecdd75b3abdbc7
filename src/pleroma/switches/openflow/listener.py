"""The TCP port to which switches connect, with or without TLS; each gets a `Connection`.

With TLS both sides show a certificate of the same authority; a switch without one is turned away before its hello.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from pleroma.errors import SetupError, SwitchError
from pleroma.switches.openflow.connection import ANSWER_SECONDS, NO_EVENTS, Connection, ConnectionEvents
from pleroma.switches.openflow.message_channel import MessageChannel

OPENFLOW_PORT = 6653
"""The TCP port that is registered for OpenFlow."""
MAX_SWITCH_CONNECTIONS = 4096
"""Connections that may be open at once; anybody who reaches the port can open one."""


def tls_context(certificate: Path | str, key: Path | str, authority: Path | str) -> ssl.SSLContext:
    """A context that shows this certificate, and accepts only clients with a certificate of this authority."""
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
        self._server: asyncio.Server | None = None
        self._welcomes: dict[Connection, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        host, port = self.address
        try:
            self._server = await loop.create_server(
                self._accept,
                host,
                port,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake if self._tls is not None else None,
            )
        except OSError as error:
            raise SetupError(f"cannot listen at {host} port {port}: {error}", field="address", value=port) from error
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        everybody = list(self.connections)
        for connection in everybody:
            connection.close()
        tasks = list(self._welcomes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in everybody:
            await connection.channel.gone()
        self.connections.clear()

    def _accept(self) -> MessageChannel:
        return Connection(self._events, on_opened=self._opened, idle=self._idle, dead=self._dead).channel

    def _opened(self, connection: Connection) -> None:
        if len(self.connections) >= self._max_connections:
            self.turned_away = f"there are {self._max_connections} connections, and no room for more"
            connection.close(self.turned_away)
            return
        self.connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._welcome(connection))
        self._welcomes[connection] = task
        task.add_done_callback(lambda _: self._welcomes.pop(connection, None))

    async def _welcome(self, connection: Connection) -> None:
        try:
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

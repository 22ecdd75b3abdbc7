"""A connection to the HTTPS port before it speaks HTTP: it holds a seat among all connections while it shakes hands.

asyncio tells a protocol of a TLS connection only when the handshake is done, so half handshakes would be counted and
cut by nobody. Here the connection is accepted in clear, takes its seat like any other, and then begins TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from pleroma.service.http.connections.caller_address import caller_address
from pleroma.service.http.connections.connection_table import ConnectionTable, Seat
from pleroma.service.http.connections.guarded_http import HEAD_SECONDS, GuardedHttp
from pleroma.service.http.connections.server_certificate import ServerCertificate

T = TypeVar("T")

HANDSHAKE_BYTES = 49_152
"""What a handshake holds in memory beyond a connection in clear; measured at 48 KB."""


class TlsHandshake(asyncio.Protocol):
    """One connection until its handshake is done; `make` makes what takes it over then."""

    def __init__(
        self,
        table: ConnectionTable,
        certificate: ServerCertificate,
        make: Callable[..., GuardedHttp],
        **given: Any,
    ) -> None:
        self._table = table
        self._certificate = certificate
        self._make = partial(make, **given)
        self._began = table.tick
        self._transport: asyncio.Transport | None = None
        self._seat: Seat | None = None
        self._shaking: asyncio.Task[None] | None = None
        self._early = b""
        """What came between the end of the handshake and the moment at which we were told of it."""

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def overdue(self) -> str | None:
        if self._transport is None or self._transport.is_closing():
            return None  # it was cut just now
        return "late" if self._table.tick - self._began > HEAD_SECONDS else None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._seat = self._table.join(self, caller_address(peer[0] if peer else ""))
        self._seat.weigh(HANDSHAKE_BYTES)
        if not transport.is_closing():
            loop = asyncio.get_running_loop()
            starting = loop.start_tls(transport, self, self._certificate.context, server_side=True)
            # TLS begins now, and not with the task: uvloop reads as soon as this method returns
            begun = starting.send(None)
            self._shaking = loop.create_task(self._shake_hands(transport, _resumed(starting, begun)))

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._seat is not None:
            self._seat.leave()

    async def _shake_hands(self, transport: asyncio.Transport, handshake: Awaitable[asyncio.Transport | None]) -> None:
        try:
            secure = await handshake
        except Exception:
            # the client has gone or speaks no TLS, or the connection was cut: event loops raise different errors
            secure = None
            transport.abort()
        if self._seat is not None:
            self._seat.leave()
        if secure is None or secure.is_closing() or transport.is_closing():
            transport.abort()
            return
        http = self._make()
        http.carrier = transport
        secure.set_protocol(http)
        http.connection_made(secure)
        if self._early:
            http.data_received(self._early)


@coroutine
def _resumed(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that somebody has begun, and that waits for a future."""
    yield waits_for
    return (yield from work.__await__())

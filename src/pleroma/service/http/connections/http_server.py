"""The HTTP server: uvicorn inside a program's own event loop, without its handling of signals and of TLS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import cast

import uvicorn
from fastapi import FastAPI

from pleroma.errors import SetupError
from pleroma.service.http.connections.connection_table import ConnectionTable
from pleroma.service.http.connections.guarded_http import KEEP_ALIVE_SECONDS, GuardedHttp
from pleroma.service.http.connections.server_certificate import ServerCertificate
from pleroma.service.http.connections.tls_handshake import TlsHandshake

_STOP_SECONDS = 5
_MAX_PENDING_CONNECTIONS = 512
"""So many connections may be accepted at once, before any of them is read from and others give way."""
_SWEEP_SECONDS = 1.0
_CERTIFICATE_SECONDS = 1.0
"""How often the files of the certificate are looked at."""


@contextlib.asynccontextmanager
async def http_server(
    app: FastAPI, listening: socket.socket, certificate: ServerCertificate | None = None
) -> AsyncIterator[uvicorn.Server]:
    """Answers at a bound socket while it is entered. It stops when `should_exit` is set, or on leaving.

    With a certificate it speaks HTTPS alone.
    """
    table: ConnectionTable = app.state.service.connections
    plain = partial(GuardedHttp, table)
    connection = plain if certificate is None else partial(TlsHandshake, table, certificate, plain)
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], connection),
        log_config=None,
        log_level=logging.ERROR,  # its warnings are about what strangers send: they could fill a disk
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        backlog=_MAX_PENDING_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config, app.state.service.closing, table)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    watching = [asyncio.create_task(_sweep(table))]
    if certificate is not None:
        watching.append(asyncio.create_task(_keep_current(certificate)))
    try:
        await _started(server, task)
        yield server
    finally:
        server.should_exit = True
        await task
        for each in watching:
            each.cancel()


async def _sweep(table: ConnectionTable) -> None:
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        table.sweep()


async def _keep_current(certificate: ServerCertificate) -> None:
    while True:
        await asyncio.sleep(_CERTIFICATE_SECONDS)
        await asyncio.to_thread(certificate.look)


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started:
        if task.done():
            await task
            raise SetupError("the HTTP server did not start")
        await asyncio.sleep(0.005)


class _Server(uvicorn.Server):
    """Leaves signals to the program: uvicorn would end the process before the controller is closed."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, table: ConnectionTable) -> None:
        super().__init__(config)
        self._closing = closing
        self._table = table

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()  # or it would wait for streams, which have no end of their own
        for seat in list(self._table.anonymous):
            if isinstance(seat.connection, TlsHandshake):  # of which uvicorn does not know
                seat.connection.cut()
        await super().shutdown(sockets)

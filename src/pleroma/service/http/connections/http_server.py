"""The HTTP server: uvicorn inside a program's own event loop, without its handling of signals."""

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

_STOP_SECONDS = 5
_MAX_PENDING_CONNECTIONS = 512
"""So many connections may be accepted at once, before any of them is read from and others give way."""
_SWEEP_SECONDS = 1.0


@contextlib.asynccontextmanager
async def http_server(app: FastAPI, listening: socket.socket) -> AsyncIterator[uvicorn.Server]:
    """Answers at a bound socket while it is entered. It stops when `should_exit` is set, or on leaving."""
    table: ConnectionTable = app.state.service.connections
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(GuardedHttp, table)),
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
    server = _Server(config, app.state.service.closing)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    sweeping = asyncio.create_task(_sweep(table))
    try:
        await _started(server, task)
        yield server
    finally:
        server.should_exit = True
        await task
        sweeping.cancel()


async def _sweep(table: ConnectionTable) -> None:
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        table.sweep()


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started:
        if task.done():
            await task
            raise SetupError("the HTTP server did not start")
        await asyncio.sleep(0.005)


class _Server(uvicorn.Server):
    """Leaves signals to the program: uvicorn would end the process before the controller is closed."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()  # or it would wait for streams, which have no end of their own
        await super().shutdown(sockets)

"""The HTTP server: uvicorn inside a program's own event loop, without its handling of signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from fastapi import FastAPI

from pleroma.errors import SetupError

_STOP_SECONDS = 5
_KEEP_ALIVE_SECONDS = 75
_MAX_PENDING_CONNECTIONS = 4096


@contextlib.asynccontextmanager
async def http_server(app: FastAPI, listening: socket.socket) -> AsyncIterator[uvicorn.Server]:
    """Answers at a bound socket while it is entered. It stops when `should_exit` is set, or on leaving."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        backlog=_MAX_PENDING_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config, app.state.service.closing)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await _started(server, task)
        yield server
    finally:
        server.should_exit = True
        await task


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

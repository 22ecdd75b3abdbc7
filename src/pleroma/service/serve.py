"""Everything in one process: the controller, the live network and the HTTP server, from start to a clean stop.

Without configuration it is for one machine: it listens on loopback, makes an administrator's token at its first start,
prints it once and keeps it in a file that only its owner reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from pleroma.content import Filter, Integer, Schema
from pleroma.control import Controller, ControlSettings, CreatePrincipal
from pleroma.errors import SetupError
from pleroma.index import GridIndex
from pleroma.routing import Topology
from pleroma.service import logs
from pleroma.service.collecting.collection import CollectingSettings, Collection
from pleroma.service.http.app import create_app
from pleroma.service.http.context import Service
from pleroma.service.http.tokens import digest, new_token, write_private
from pleroma.service.planes.broker_plane import BrokerSettings, over_broker
from pleroma.service.planes.data_plane import DataPlane, EmbeddedPlane
from pleroma.service.planes.openflow_plane import OpenFlowSettings, over_openflow
from pleroma.service.service_settings import LOOPBACK, PORT, ServiceSettings
from pleroma.switches.live.live_network import LiveNetwork

ADMIN = "admin"
TOKEN_FILE = "admin.token"  # noqa: S105
_SECONDS_TO_STOP = 5
_KEEP_ALIVE = 75
_ATTEMPTS = 20
"""To find a free port that is free for connections and for datagrams."""

_Opened = AbstractAsyncContextManager[tuple[Controller, DataPlane]]

log = structlog.get_logger("pleroma.service")


@dataclass(frozen=True, slots=True)
class Running:
    """A service that answers. `token` is the administrator's if it was made just now."""

    url: str
    token_file: Path
    token: str | None
    app: FastAPI
    server: uvicorn.Server

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    async def stopped(self) -> None:
        """Until somebody tells the server to stop."""
        while not self.server.should_exit:
            await asyncio.sleep(0.05)


def serve(
    folder: Path,
    topology: Topology,
    host: str = LOOPBACK,
    port: int = PORT,
    *,
    settings: ServiceSettings | None = None,
    control: ControlSettings | None = None,
    openflow: OpenFlowSettings | None = None,
    broker: BrokerSettings | None = None,
    collecting: CollectingSettings | None = None,
    announce: Callable[[Running], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. `announce` is called once when it answers; by default it prints where and how."""
    logs.configure()
    started = running(
        folder,
        topology,
        host,
        port,
        settings=settings,
        control=control,
        openflow=openflow,
        broker=broker,
        collecting=collecting,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(started, announce or _announce))


async def _serve(started: AbstractAsyncContextManager[Running], announce: Callable[[Running], None]) -> None:
    async with started as service:
        _spare_the_collector()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, service.server)
        announce(service)
        await service.stopped()


def _spare_the_collector() -> None:
    """What is there now stays: looking through it for garbage again and again costs requests a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def _announce(service: Running) -> None:
    print(f"listening on {service.url}  (try {service.url}/docs)")
    if service.token is not None:
        print(f"token of the administrator, shown this once and kept in {service.token_file}:\n{service.token}")
    print("ready", flush=True)


@asynccontextmanager
async def running(
    folder: Path,
    topology: Topology,
    host: str = LOOPBACK,
    port: int = PORT,
    *,
    settings: ServiceSettings | None = None,
    control: ControlSettings | None = None,
    openflow: OpenFlowSettings | None = None,
    broker: BrokerSettings | None = None,
    collecting: CollectingSettings | None = None,
) -> AsyncIterator[Running]:
    """The whole service inside a program's own event loop; port 0 takes a free one.

    On simulated switches; or, with `openflow`, on switches that connect; or, with `broker`, on no switches at all, and
    events come to the UDP port of the same number. With `collecting`, what the pipeline needs goes into a lake.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    listening, datagrams = _bound_twice(host, port) if broker is not None else (_bound(host, port), None)
    with contextlib.closing(listening):
        if broker is not None and datagrams is not None:
            plane_opened: _Opened = over_broker(folder, control, broker, datagrams)
        elif openflow is not None:
            plane_opened = over_openflow(folder, topology, control, openflow)
        else:
            plane_opened = _embedded(folder, topology, control)
        async with plane_opened as (controller, plane):
            _warm_up()
            token = await _first_token(controller, folder / TOKEN_FILE)
            collection = None if collecting is None else await Collection.open(controller, collecting)
            app = create_app(controller, plane, settings, collection)
            server = _Server(_config(app), app.state.service)
            async with plane.serving(app), collection or contextlib.nullcontext():
                task = asyncio.create_task(server.serve(sockets=[listening]))
                try:
                    await _started(server, task)
                    async with app.state.service.leases:
                        yield Running(_url(listening), folder / TOKEN_FILE, token, app, server)
                finally:
                    server.should_exit = True
                    await task


@asynccontextmanager
async def _embedded(
    folder: Path, topology: Topology, control: ControlSettings | None
) -> AsyncIterator[tuple[Controller, DataPlane]]:
    async with (
        LiveNetwork(topology, loopback=True, guarded=True) as network,
        await Controller.open(folder, topology, network, control) as controller,
    ):
        yield controller, EmbeddedPlane(network)


def _warm_up() -> None:
    """Load the filter language and the compiled covers now: the first request would wait for them, and all others."""
    schema = Schema("warm", (Integer("up", False, 0, 1),))
    GridIndex.regular(schema, 1).cover(Filter.parse(schema, "up > 0"), max_members=1)


async def _first_token(controller: Controller, path: Path) -> str | None:
    """The administrator's token, if there was no administrator yet.

    The file comes first: should everything stop in between, the next start finds no administrator and makes another.
    """
    if any(each.role == "admin" for each in controller.state.principals.values()):
        return None
    token = new_token()
    write_private(path, token)
    name = next(n for n in _names() if n not in controller.state.principals)
    await controller.submit(CreatePrincipal(name, "admin", digest(token)))
    return token


def _names() -> Iterator[str]:
    yield ADMIN
    number = 2
    while True:
        yield f"{ADMIN}{number}"
        number += 1


def _bound_twice(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """For connections and for datagrams, at the same port."""
    for attempt in range(_ATTEMPTS):
        listening = _bound(host, port)
        try:
            return listening, _bound(host, listening.getsockname()[1], socket.SOCK_DGRAM)
        except SetupError:
            listening.close()
            if port or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _bound(host: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol, or asyncio does not turn off Nagle's algorithm, and answers wait 40 ms for an acknowledgement
    listening = socket.socket(family, kind, socket.IPPROTO_TCP if kind is socket.SOCK_STREAM else socket.IPPROTO_UDP)
    try:
        if kind is socket.SOCK_STREAM:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise SetupError(f"cannot listen on {host} port {port}: {reason}", field="port", value=port) from None
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        backlog=4096,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
    )


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started:
        if task.done():
            await task
            raise SetupError("the HTTP server did not start")
        await asyncio.sleep(0.005)


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn's own way ends the process before the controller is closed."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.closing.set()  # or it would wait for streams, which have no end of their own
        await super().shutdown(sockets)

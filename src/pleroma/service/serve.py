"""Everything in one process: the controller, the live network and the HTTP server, from start to a clean stop.

Without configuration it is for one machine: it listens on loopback, makes an administrator's token at its first start
and keeps it in a file that only its owner reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from pleroma.content import Filter, Integer, Schema
from pleroma.control import Controller
from pleroma.control.log.private_files import make_private
from pleroma.index import GridIndex
from pleroma.routing import Topology
from pleroma.service import logs
from pleroma.service.collecting.collection import Collection
from pleroma.service.deployment import Deployment
from pleroma.service.http.admin_token import make_admin_token
from pleroma.service.http.application import create_app
from pleroma.service.http.connections.descriptors import raise_descriptor_limit
from pleroma.service.http.connections.http_server import http_server
from pleroma.service.http.connections.server_certificate import ServerCertificate
from pleroma.service.http.context import Service
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.listening import bind_tcp, bind_tcp_and_udp, url_of
from pleroma.service.loop_watch import LoopWatch
from pleroma.service.planes.broker_plane import BrokerSettings, over_broker
from pleroma.service.planes.embedded_plane import over_embedded
from pleroma.service.planes.openflow_plane import over_openflow
from pleroma.service.tree_moves import moving_to

log = structlog.get_logger("pleroma.service")

TOKEN_FILE = "admin.token"  # noqa: S105
THREAD_TURN_SECONDS = 0.001
"""After so long a thread lets another have its turn, so that the event loop waits less while threads work."""


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
        """Wait until somebody tells the server to stop."""
        while not self.server.should_exit:
            await asyncio.sleep(0.05)


def serve(
    folder: Path,
    topology: Topology,
    deployment: Deployment | None = None,
    *,
    announce: Callable[[Running], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. `announce` is called once when it answers; by default it prints where and how."""
    deployment = deployment or Deployment()
    logs.configure(deployment.logs)
    sys.setswitchinterval(THREAD_TURN_SECONDS)
    raise_descriptor_limit()
    started = running(folder, topology, deployment)
    before = os.umask(0o077)  # whatever is written from here on, others cannot read it
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(started, announce or _announce))
    finally:
        os.umask(before)


async def _serve(started: AbstractAsyncContextManager[Running], announce: Callable[[Running], None]) -> None:
    async with started as service:
        _spare_the_collector()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, service.server)
        announce(service)
        await service.stopped()


def _spare_the_collector() -> None:
    """Exempt all present objects from garbage collection: searching them costs requests a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def _announce(service: Running) -> None:
    print(f"listening on {service.url}  (try {service.url}/docs)")
    if service.token is not None:
        print(f"token of the administrator: in {service.token_file}")
    print("ready", flush=True)


@asynccontextmanager
async def running(folder: Path, topology: Topology, deployment: Deployment | None = None) -> AsyncIterator[Running]:
    """The whole service inside a program's own event loop. A broker has no use for the topology.

    Parts are opened one after the other, each with those before it, and closed in the opposite order.
    """
    deployment = deployment or Deployment()
    tightened = make_private(folder)
    if tightened:
        log.warning("others could read what is here; now only its owner can", names=tightened)
    certificate = None if deployment.https is None else ServerCertificate(deployment.https)
    _warm_up()  # before anybody can connect
    async with AsyncExitStack() as stack:
        watch = stack.enter_context(LoopWatch().watching())
        listening, opened = _plane(folder, topology, deployment)
        stack.enter_context(contextlib.closing(listening))
        controller, plane = await stack.enter_async_context(opened)
        token = await make_admin_token(controller, folder / TOKEN_FILE)
        collecting = deployment.collecting
        collection = None if collecting is None else await Collection.open(controller, collecting, plane)
        replanning = None if isinstance(deployment.plane, BrokerSettings) else deployment.replanning
        keys = EventKeys.open(folder) if deployment.event_tags else None
        app = await asyncio.to_thread(
            create_app, controller, plane, deployment.settings, collection, replanning, watch, keys
        )
        await stack.enter_async_context(plane.serving(app))
        if collection is not None:
            await stack.enter_async_context(collection)
        server = await stack.enter_async_context(http_server(app, listening, certificate))
        await stack.enter_async_context(app.state.service.network_watch)
        await stack.enter_async_context(app.state.service.leases)
        await stack.enter_async_context(app.state.service.tokens)
        await stack.enter_async_context(app.state.service.planner)
        if app.state.service.replanning is not None:
            await stack.enter_async_context(app.state.service.replanning)
        await stack.enter_async_context(moving_to(controller, deployment.trees))
        url = url_of(listening, "http" if certificate is None else "https")
        yield Running(url, folder / TOKEN_FILE, token, app, server)


def _plane(
    folder: Path, topology: Topology, deployment: Deployment
) -> tuple[socket.socket, AbstractAsyncContextManager[tuple[Controller, DataPlane]]]:
    """A bound socket for HTTP, and the controller with the network that the deployment asks for."""
    host, port, control, plane = deployment.host, deployment.port, deployment.control, deployment.plane
    if isinstance(plane, BrokerSettings):
        listening, datagrams = bind_tcp_and_udp(host, port)
        return listening, over_broker(folder, control, plane, datagrams, has_tags=deployment.event_tags)
    listening = bind_tcp(host, port)
    if plane is not None:
        return listening, over_openflow(folder, topology, control, plane)
    return listening, over_embedded(folder, topology, control)


def _warm_up() -> None:
    """Load the filter language and the compiled covers now: the first request would wait for them, and all others."""
    schema = Schema("warm", (Integer("up", False, 0, 1),))
    GridIndex.regular(schema, 1).cover(Filter.parse(schema, "up > 0"), max_members=1)

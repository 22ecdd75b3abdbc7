"""Everything in one process: the controller, the network and the HTTP server, from start to a clean stop.

Without configuration it is for one machine: it listens on loopback, makes an administrator's token at its first start
and keeps it in a file that only its owner reads. Where several processes share a log, this is the one that leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from pleroma.control import Controller
from pleroma.control.log.etcd.etcd_log import EtcdLog
from pleroma.control.log.private_files import make_private
from pleroma.control.state.command import Lead
from pleroma.errors import SetupError
from pleroma.routing import Topology
from pleroma.service.collecting.collection import Collection
from pleroma.service.compiled_ahead import compile_ahead
from pleroma.service.deployment import Deployment
from pleroma.service.http.admin_token import make_admin_token
from pleroma.service.http.application import create_app
from pleroma.service.http.connections.http_server import http_server
from pleroma.service.http.connections.server_certificate import ServerCertificate
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.forgery.event_keys import EventKeys, shared_keys
from pleroma.service.listening import bind_tcp, bind_tcp_and_udp, found_at, url_of
from pleroma.service.loop_watch import LoopWatch
from pleroma.service.planes.broker_plane import BrokerSettings, over_broker
from pleroma.service.planes.embedded_plane import over_embedded
from pleroma.service.planes.openflow_plane import over_openflow
from pleroma.service.planes.shared_lead import SharedLead
from pleroma.service.roles.confirmation_channel import ConfirmationServer, gate_secret
from pleroma.service.roles.lead_office import this_process
from pleroma.service.roles.told_position import ToldPosition
from pleroma.service.running_service import Running
from pleroma.service.tree_moves import moving_to

log = structlog.get_logger("pleroma.service")

TOKEN_FILE = "admin.token"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Leading:
    """This process leads those that share a log: `generation` tells it from others that did or will."""

    url: str
    """Of the log."""
    generation: int
    deposed: asyncio.Event
    """Set when another process leads."""


@asynccontextmanager
async def running(
    folder: Path, topology: Topology, deployment: Deployment | None = None, leading: Leading | None = None
) -> AsyncIterator[Running]:
    """The whole service inside a program's own event loop. A broker has no use for the topology.

    Parts are opened one after the other, each with those before it, and closed in the opposite order.
    """
    deployment = deployment or Deployment()
    tightened = make_private(folder)
    if tightened:
        log.warning("others could read what is here; now only its owner can", names=tightened)
    certificate = None if deployment.https is None else ServerCertificate(deployment.https)
    compile_ahead()  # before anybody can connect
    async with AsyncExitStack() as stack:
        watch = stack.enter_context(LoopWatch().watching())
        listening, datagrams = _bound(deployment)
        stack.enter_context(contextlib.closing(listening))
        scheme = "http" if certificate is None else "https"
        url = url_of(listening, scheme)
        shared, keys = None, None
        if leading is not None:
            store = await asyncio.to_thread(EtcdLog.open, leading.url)
            stack.callback(store.close)
            secret = await asyncio.to_thread(gate_secret, store)
            confirming = bind_tcp(deployment.host, 0)
            stack.enter_context(contextlib.closing(confirming))
            host = await asyncio.to_thread(found_at, listening, store.address.endpoints[0])
            lead = Lead(this_process(), url_of(listening, scheme, host), (host, confirming.getsockname()[1]))
            shared = SharedLead(store, lead, leading.generation, leading.deposed.set)
            keys = await asyncio.to_thread(shared_keys, store) if deployment.event_tags else None
        elif deployment.event_tags:
            keys = EventKeys.open(folder)
        controller, plane = await stack.enter_async_context(_plane(folder, topology, deployment, datagrams, shared))
        if leading is not None:
            controller.on_lead(lambda _: leading.deposed.set())
            await stack.enter_async_context(ConfirmationServer(controller, secret, confirming))
        token = await make_admin_token(controller, folder / TOKEN_FILE)
        collecting = deployment.collecting
        collection = None if collecting is None else await Collection.open(controller, collecting, plane)
        replanning = None if isinstance(deployment.plane, BrokerSettings) else deployment.replanning
        app = await asyncio.to_thread(
            create_app, controller, plane, deployment.settings, collection, replanning, watch, keys
        )
        if leading is not None:
            app.add_middleware(ToldPosition, controller=controller)
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
        yield Running(url, folder / TOKEN_FILE, token, app, server)


def _bound(deployment: Deployment) -> tuple[socket.socket, socket.socket | None]:
    """A bound socket for HTTP, and for a broker one for datagrams."""
    if isinstance(deployment.plane, BrokerSettings):
        return bind_tcp_and_udp(deployment.host, deployment.port)
    return bind_tcp(deployment.host, deployment.port), None


def _plane(
    folder: Path,
    topology: Topology,
    deployment: Deployment,
    datagrams: socket.socket | None,
    shared: SharedLead | None,
) -> AbstractAsyncContextManager[tuple[Controller, DataPlane]]:
    """The controller with the network that the deployment asks for."""
    control, plane = deployment.control, deployment.plane
    if isinstance(plane, BrokerSettings):
        if shared is not None or datagrams is None:
            raise SetupError("a broker has a log of its own", field="log")
        return over_broker(folder, control, plane, datagrams, has_tags=deployment.event_tags)
    if plane is not None:
        if shared is not None:
            plane = replace(plane, generation=shared.generation, on_fenced=lambda _: shared.on_deposed())
        return over_openflow(folder, topology, control, plane, shared)
    return over_embedded(folder, topology, control, shared)

"""A gate from start to a clean stop: it follows the log, answers requests, and asks the leading process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from pleroma.control import ControlSettings
from pleroma.control.log.etcd.etcd_log import EtcdLog
from pleroma.control.relayed_controller import RelayedController
from pleroma.control.state.command import Lead
from pleroma.routing import Topology
from pleroma.service.compiled_ahead import compile_ahead
from pleroma.service.deployment import Deployment
from pleroma.service.gates.gate_application import create_gate_app
from pleroma.service.gates.relayed_requests import RelayedRequests
from pleroma.service.http.connections.http_server import http_server
from pleroma.service.http.connections.server_certificate import ServerCertificate, trusted_authorities
from pleroma.service.http.forgery.event_keys import shared_keys
from pleroma.service.listening import bind_tcp, url_of
from pleroma.service.loop_watch import LoopWatch
from pleroma.service.roles.confirmation_channel import ConfirmationLink, gate_secret
from pleroma.service.running_service import Running
from pleroma.service.service_settings import ServiceSettings


@asynccontextmanager
async def running_gate(
    url: str, topology: Topology, deployment: Deployment, has_lead: Callable[[], bool]
) -> AsyncIterator[Running]:
    """A gate inside a program's own event loop. `has_lead` says whether any process leads at the moment."""
    certificate = None if deployment.https is None else ServerCertificate(deployment.https)
    settings = deployment.settings or ServiceSettings()
    compile_ahead()  # before anybody can connect
    async with AsyncExitStack() as stack:
        watch = stack.enter_context(LoopWatch().watching())
        listening = stack.enter_context(contextlib.closing(bind_tcp(deployment.host, deployment.port)))
        log = await asyncio.to_thread(EtcdLog.open, url)
        stack.callback(log.close)
        link = ConfirmationLink(await asyncio.to_thread(gate_secret, log))
        stack.push_async_callback(link.close)
        control = deployment.control or ControlSettings()
        controller = await RelayedController.open(log, topology, control, link)
        stack.push_async_callback(controller.close)
        controller.on_lead(link.follow)
        link.follow(controller.lead)

        def lead() -> Lead | None:
            return controller.lead if has_lead() else None

        authorities = None if deployment.https is None else trusted_authorities(deployment.https)
        relayed = RelayedRequests(lead, settings.max_body_bytes, controller.reached, authorities)
        stack.push_async_callback(relayed.close)
        keys = await asyncio.to_thread(shared_keys, log) if deployment.event_tags else None
        app = await asyncio.to_thread(create_gate_app, controller, lead, relayed, settings, keys, watch)
        server = await stack.enter_async_context(http_server(app, listening, certificate))
        yield Running(url_of(listening, "http" if certificate is None else "https"), None, None, app, server)

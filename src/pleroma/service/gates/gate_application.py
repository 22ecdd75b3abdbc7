"""The application of a gate: subscriptions are registered and withdrawn here, everything else is forwarded.

A gate follows the log, so it knows tokens, rights, schemas and plans. What it does for a subscription is most of the
work: reading the request, checking rights, the filter, its region, and the log. Advertisements are forwarded: the
leading process takes one only when no switch has rules of an earlier tree.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client.core import Metric
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

import pleroma
from pleroma.control import ControlState, SchemaEntry, Token
from pleroma.control.log.durable_log import Position
from pleroma.control.relayed_controller import RelayedController
from pleroma.control.state.command import Lead
from pleroma.errors import NotReady
from pleroma.service.collecting.settled_clock import SettledClock
from pleroma.service.gates.relayed_requests import CATCH_UP_SECONDS, RelayedRequests
from pleroma.service.http import problems
from pleroma.service.http.batch_slices import BatchSlices
from pleroma.service.http.connections.connection_table import ConnectionTable
from pleroma.service.http.connections.descriptors import free_descriptors
from pleroma.service.http.context import schema_named
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.http.gate import Gate
from pleroma.service.http.health.service_health import HealthReason, HealthReport
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.limits import BodyLimit, Buckets
from pleroma.service.http.metrics import CONTENT_TYPE, Metrics, RequestMeter
from pleroma.service.http.resources.registration_batches import registration_batches
from pleroma.service.http.resources.registrations import CONFIRM_PATIENCE_SECONDS, registrations
from pleroma.service.http.strict_route import StraightRoutes
from pleroma.service.http.tokens import Callers
from pleroma.service.loop_watch import LoopWatch
from pleroma.service.metric_families import gauge
from pleroma.service.service_settings import ServiceSettings
from pleroma.service.turns import Turns

OWN_PREFIX = "/v1/subscriptions"
_OF_ONE = re.compile(f"{OWN_PREFIX}/s([0-9]{{1,18}})")
OWN_PATHS = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})


class ForwardedLeases:
    """The leading process hears of every registration by the log, and counts the time of its lease from then on."""

    def extend(self, principal: str, name: str) -> None: ...

    def begin(self, principal: str, name: str) -> None: ...


class NoSamples:
    """A gate has no events to judge a subscription by."""

    async def of(self, entry: SchemaEntry) -> None: ...


@dataclass(frozen=True, slots=True)
class GateDesk:
    """What the handlers work with. `lead` tells which process leads; None if none is known to."""

    controller: RelayedController
    lead: Callable[[], Lead | None]
    keys: EventKeys | None
    buckets: Buckets
    batches: BatchSlices
    connections: ConnectionTable
    watch: LoopWatch
    leases: ForwardedLeases = field(default_factory=ForwardedLeases)
    traffic: NoSamples = field(default_factory=NoSamples)
    turns: Turns = field(default_factory=Turns)
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def state(self) -> ControlState:
        return self.controller.state

    def schema(self, name: str) -> SchemaEntry:
        return schema_named(self.state, name)

    def gauges(self) -> Iterable[Metric]:
        position, has_lead = float(self.controller.position), float(self.lead() is not None)
        yield gauge("pleroma_log_position", "Entries of the log that the state holds", [("", position)])
        yield gauge("pleroma_lead_known", "1 if a process is known to lead", [("", has_lead)])
        for part in (self.watch, self.connections):
            yield from part.metrics()


class Elsewhere:
    """Middleware behind the gate: requests that are not answered here are forwarded.

    The id of a subscription has its position in the log. If this gate has not come to it, another one has made it just
    now, and it is waited for.
    """

    def __init__(self, app: ASGIApp, relayed: RelayedRequests, controller: RelayedController) -> None:
        self._app = app
        self._relayed = relayed
        self._controller = controller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_here = scope["type"] != "http" or path.startswith(OWN_PREFIX) or path in OWN_PATHS or path[:1] != "/"
        if named := _OF_ONE.fullmatch(path):
            with suppress(TimeoutError):
                async with asyncio.timeout(CATCH_UP_SECONDS):
                    await self._controller.reached(Position(int(named[1])))
        await (self._app if is_here else self._relayed)(scope, receive, send)


def create_gate_app(
    controller: RelayedController,
    lead: Callable[[], Lead | None],
    relayed: RelayedRequests,
    settings: ServiceSettings,
    keys: EventKeys | None,
    watch: LoopWatch,
    clock: Callable[[], float] | None = None,
) -> FastAPI:
    """The application; `app.state.service` is its `GateDesk`. `clock` is the time since 1970, by which tokens end."""
    buckets = Buckets(settings.requests_per_s)
    batches = BatchSlices(controller, CONFIRM_PATIENCE_SECONDS)
    connections = ConnectionTable(min(settings.max_connections, free_descriptors() // 2))
    desk = GateDesk(controller, lead, keys, buckets, batches, connections, watch)
    metrics = Metrics(desk.gauges)
    resources = (registrations(desk, "subscription"), registration_batches(desk, "subscription"))
    routes = [route for each in (*resources, _health(desk, metrics)) for route in each.routes]

    now = clock or SettledClock().seconds

    def is_over(token: Token) -> bool:
        return token.is_over or (token.ends is not None and now() >= token.ends)

    app = FastAPI(
        title="Pleroma",
        version=pleroma.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(RequestMeter, metrics=metrics),
            Middleware(
                Gate,
                callers=Callers(controller.state, is_over),
                buckets=buckets,
                anonymous=Buckets(settings.anonymous_per_s),
            ),
            Middleware(Elsewhere, relayed=relayed, controller=controller),
            Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
            Middleware(StraightRoutes, routes=routes, answer=problems.answer),
        ],
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = desk
    app.router.routes.extend(routes)
    problems.install(app)
    return app


def _reasons(desk: GateDesk) -> Iterator[HealthReason]:
    """Why this gate cannot do its work: by the same parts as the leading process, so that tools read both."""
    if (failure := desk.controller.log_failure) is not None:
        yield HealthReason("log", "failing", failure.reason)
    if desk.lead() is None:
        yield HealthReason("lead", "degraded", "no process leads at the moment")


def _health(desk: GateDesk, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/health")
    async def condition() -> Response:
        lead, report = desk.lead(), HealthReport.of(_reasons(desk))
        answer: dict[str, Any] = {"status": report.status, "version": pleroma.__version__}
        answer |= {"position": desk.controller.position, "reasons": [each._asdict() for each in report.reasons]}
        return json_response(answer | {"role": "gate", "lead": lead.holder if lead else None})

    @router.get("/health/live", status_code=204)
    async def live() -> Response:
        return Response(status_code=204)

    @router.get("/health/ready", status_code=204)
    async def ready() -> Response:
        for part, _, reason in _reasons(desk):
            return problems.problem_response(NotReady(reason, field=part))
        return Response(status_code=204)

    @router.get("/metrics")
    async def scrape() -> Response:
        await desk.controller.settled()
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router

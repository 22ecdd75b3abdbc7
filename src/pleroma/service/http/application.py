"""The application: the routes under /v1, and the middleware in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

import pleroma
from pleroma.control import Controller
from pleroma.service.collecting.advertised_events import AdvertisedEvents
from pleroma.service.collecting.collection import Collection
from pleroma.service.collecting.influence_limit import InfluenceLimit
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.collecting.sampling_rates import SamplingRates
from pleroma.service.collecting.settled_clock import SettledClock
from pleroma.service.http import openapi, problems
from pleroma.service.http.batch_slices import BatchSlices
from pleroma.service.http.connections.connection_table import ConnectionTable
from pleroma.service.http.connections.descriptors import free_descriptors
from pleroma.service.http.context import Service
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.http.gate import Gate
from pleroma.service.http.gauges import Measured, gauges
from pleroma.service.http.health.disk_space import DiskSpace
from pleroma.service.http.health.network_watch import NetworkWatch
from pleroma.service.http.health.service_health import ServiceHealth
from pleroma.service.http.limits import BodyLimit, Buckets
from pleroma.service.http.metrics import Metrics, RequestMeter
from pleroma.service.http.resources.explanations import explanations
from pleroma.service.http.resources.groups import groups
from pleroma.service.http.resources.health import health
from pleroma.service.http.resources.hosts import hosts
from pleroma.service.http.resources.leases import leases
from pleroma.service.http.resources.network import network as network_routes
from pleroma.service.http.resources.plan_tree import plan_tree
from pleroma.service.http.resources.plans import plans
from pleroma.service.http.resources.principals import myself, principals
from pleroma.service.http.resources.registration_batches import registration_batches
from pleroma.service.http.resources.registrations import CONFIRM_PATIENCE_SECONDS, registrations
from pleroma.service.http.resources.replanning import replanning as replanning_routes
from pleroma.service.http.resources.samples import samples as sample_routes
from pleroma.service.http.resources.schemas import schemas
from pleroma.service.http.resources.statistics import statistics
from pleroma.service.http.resources.streams import streams
from pleroma.service.http.resources.trace import trace
from pleroma.service.http.resources.trees import trees as tree_routes
from pleroma.service.http.sampled_traffic import SampledTraffic
from pleroma.service.http.strict_route import StraightRoutes
from pleroma.service.http.tokens import Callers
from pleroma.service.http.traffic_rates import TrafficRates
from pleroma.service.lease_keeper import LeaseKeeper
from pleroma.service.loop_watch import LoopWatch
from pleroma.service.replanning.plan_loop import PlanLoop
from pleroma.service.replanning.planner import Planner
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.service.replanning.watcher_claims import WatcherClaims
from pleroma.service.service_settings import ServiceSettings
from pleroma.service.shares import Shares
from pleroma.service.token_keeper import TokenKeeper

_DESCRIPTION = "The controller of a content-based publish/subscribe network. docs/api.md is the guide to this."
_STREAM_RETRY_SECONDS = 5.0


def create_app(
    controller: Controller,
    plane: DataPlane,
    settings: ServiceSettings | None = None,
    collection: Collection | None = None,
    replanning: ReplanningSettings | None = None,
    watch: LoopWatch | None = None,
    keys: EventKeys | None = None,
    clock: Callable[[], float] | None = None,
) -> FastAPI:
    """The API of a controller and a data plane that are open and stay open. `app.state.service` holds its parts.

    With `keys`, events have tags. `clock` is the time in seconds since 1970, by which tokens end.

    Leases expire only inside `async with app.state.service.leases`, and the log is told of tokens that end inside that
    of `tokens`. A collection lands only inside its own, and plans are looked at only inside that of `replanning`.
    Inside that of `network_watch`, changes of the network are told as soon as they are noticed.
    """
    settings = settings or ServiceSettings()
    traffic_rates = TrafficRates(controller.state.schemas)
    watch = watch or LoopWatch()
    influence = InfluenceLimit(controller.state.registrations, plane)
    attachments = Shares("attachments", settings.max_attachments, settings.attachment_seconds)
    streaming = Shares("streams", settings.max_streams, _STREAM_RETRY_SECONDS)
    buckets = Buckets(settings.requests_per_s)
    connections = ConnectionTable(min(settings.max_connections, free_descriptors() // 2))
    closing, network_watch, disk = asyncio.Event(), NetworkWatch(controller, plane), DiskSpace(controller.folder)
    condition = ServiceHealth(controller, plane, network_watch, collection, closing)
    parts: list[Measured] = [watch, connections, plane, network_watch, condition, disk]
    parts += [] if collection is None else [collection]
    metrics = Metrics(partial(gauges, controller, traffic_rates, influence, streaming, parts))
    clock = clock or SettledClock().seconds
    tokens = TokenKeeper(controller, clock, plane.dismiss)
    leased = LeaseKeeper(controller, settings.lease_seconds)
    rates = None if replanning is None else SamplingRates()
    samples = SampleIntake(collection, rates, partial(_announce_rate, controller), influence)
    controller.state.principals.on_removed(samples.forget)
    controller.state.principals.on_removed(traffic_rates.forget)
    claims = WatcherClaims()
    planner = Planner(controller, plane, samples, replanning or ReplanningSettings())
    loop = None if replanning is None else PlanLoop(controller, planner, claims, replanning.looking.window)
    traffic = SampledTraffic(samples.recent)
    for knowing in (samples.forget_schema, traffic_rates.forget_schema, planner.forget):
        controller.state.plans.on_removed(knowing)
    if loop is not None:
        controller.state.plans.on_removed(loop.forget)
    advertised = AdvertisedEvents(controller.state.registrations)
    for hearing in (samples.extend, planner.extend, advertised.extend):
        controller.on_extended(hearing)
    service = Service(
        controller,
        plane,
        settings,
        metrics,
        clock,
        tokens,
        leased,
        samples,
        advertised,
        traffic,
        traffic_rates,
        planner,
        watch,
        network_watch,
        condition,
        disk,
        attachments,
        streaming,
        connections,
        buckets,
        BatchSlices(controller, CONFIRM_PATIENCE_SECONDS),
        collection,
        loop,
        keys,
        claims,
        closing=closing,
    )
    gate = Middleware(
        Gate,
        callers=Callers(controller.state, tokens.is_over),
        buckets=buckets,
        anonymous=Buckets(settings.anonymous_per_s),
    )
    routes = _routes(service)
    app = FastAPI(
        title="Pleroma",
        version=pleroma.__version__,
        description=_DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(RequestMeter, metrics=metrics),
            gate,
            Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
            Middleware(StraightRoutes, routes=routes, answer=problems.answer),
        ],
        telemetry={"tracing": False, "metrics": False, "logs": False},  # there are other metrics, in http/metrics.py
    )
    app.state.service = service
    app.router.routes.extend(routes)  # one flat list: routers in a router are slower to search
    problems.install(app)
    app.openapi = partial(openapi.document, app)  # type: ignore[method-assign]
    return app


def _announce_rate(controller: Controller, schema: str) -> None:
    """Publishers learn of another sampling rate like of a new plan."""
    entry = controller.state.schemas.get(schema)
    if entry is not None:
        controller.feed.tell({"type": "plan", "position": controller.position, "schema": schema, "epoch": entry.epoch})


def _routes(service: Service) -> list[BaseRoute]:
    """The routes of all resources; those that are asked for most come first."""
    resources = (
        registrations(service, "subscription"),
        registrations(service, "advertisement"),
        registration_batches(service, "subscription"),
        registration_batches(service, "advertisement"),
        leases(service),
        hosts(service),
        statistics(service),
        sample_routes(service),
        streams(service),
        plans(service),
        plan_tree(service),
        replanning_routes(service),
        explanations(service),
        schemas(service),
        principals(service),
        myself(service),
        groups(service),
        network_routes(service),
        tree_routes(service),
        trace(service),
        health(service),
    )
    return [route for each in resources for route in each.routes]

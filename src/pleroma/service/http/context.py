"""What the handlers work with: the controller, the data plane, and the settings of this service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pleroma.control import Controller, ControlState, SchemaEntry
from pleroma.errors import NotFound, UnknownName
from pleroma.service.collecting.advertised_events import AdvertisedEvents
from pleroma.service.collecting.collection import Collection
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.http.batch_slices import BatchSlices
from pleroma.service.http.connections.connection_table import ConnectionTable
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.http.forgery.forged_reports import ForgedReports
from pleroma.service.http.health.disk_space import DiskSpace
from pleroma.service.http.health.network_watch import NetworkWatch
from pleroma.service.http.health.service_health import ServiceHealth
from pleroma.service.http.limits import Buckets
from pleroma.service.http.metrics import Metrics
from pleroma.service.http.sampled_traffic import SampledTraffic
from pleroma.service.http.traffic_rates import TrafficRates
from pleroma.service.lease_keeper import LeaseKeeper
from pleroma.service.loop_watch import LoopWatch
from pleroma.service.replanning.plan_loop import PlanLoop
from pleroma.service.replanning.planner import Planner
from pleroma.service.replanning.watcher_claims import WatcherClaims
from pleroma.service.service_settings import ServiceSettings
from pleroma.service.shares import Shares
from pleroma.service.token_keeper import TokenKeeper
from pleroma.service.turns import Turns


def schema_named(state: ControlState, name: str) -> SchemaEntry:
    """The schema that a URL names; raises `NotFound`."""
    try:
        return state.schemas[name]
    except KeyError:
        raise NotFound(UnknownName("schema", name, state.schemas).reason, field="schema", value=name) from None


@dataclass(frozen=True, slots=True)
class Service:
    controller: Controller
    plane: DataPlane
    settings: ServiceSettings
    metrics: Metrics
    clock: Callable[[], float]
    """The time in seconds since 1970, by which tokens end."""
    tokens: TokenKeeper
    leases: LeaseKeeper
    samples: SampleIntake
    advertised: AdvertisedEvents
    traffic: SampledTraffic
    rates: TrafficRates
    planner: Planner
    watch: LoopWatch
    network_watch: NetworkWatch
    health: ServiceHealth
    disk: DiskSpace
    attachments: Shares
    streams: Shares
    connections: ConnectionTable
    buckets: Buckets
    """How much each principal may ask."""
    batches: BatchSlices
    collection: Collection | None = None
    """What is collected for the pipeline; None where there is no lake."""
    replanning: PlanLoop | None = None
    """The controller's own re-planning; None where it is off."""
    keys: EventKeys | None = None
    """What the tags of events are made with; None where events have none."""
    claims: WatcherClaims = field(default_factory=WatcherClaims)
    forged: ForgedReports = field(default_factory=ForgedReports)
    turns: Turns = field(default_factory=Turns)
    """In which long work is done for requests."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the service is about to stop, so that streams end."""

    @property
    def state(self) -> ControlState:
        return self.controller.state

    def schema(self, name: str) -> SchemaEntry:
        """The schema that a URL names; raises `NotFound`."""
        return schema_named(self.state, name)

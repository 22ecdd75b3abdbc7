"""The service on a broker instead of switches: the same control plane and API, and events carried in software.

All programs are at one host. The broker itself matches events with subscriptions, so a registration is in force as soon
as it is logged, and there is nothing to install. The API is answered at the broker's own UDP port too, for programs
that know nothing but that (`wire.inband_messages`).
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client.core import Metric

from pleroma.broker import Broker, MatchState, ProgramOwner
from pleroma.broker.needed_above import NeededAbove
from pleroma.broker.programs import Program
from pleroma.broker.upstream import BrokerAbove, Upstream
from pleroma.content import Schema
from pleroma.content.schema_versions import obstacles
from pleroma.control import Controller, ControlSettings, CreateSchema, ExtendSchema, Registered, SchemaEntry
from pleroma.control.entry_guard import EntryGuard
from pleroma.errors import AlreadyThere
from pleroma.index.address import IPV6
from pleroma.index.dz import Dz
from pleroma.routing import Host, HostId, Presence, SwitchId, SwitchOp, Topology
from pleroma.routing.presence import Place
from pleroma.routing.topology import Port
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.inband.carrier import Peer
from pleroma.service.inband.inband_server import InbandServer
from pleroma.service.metric_families import gauge
from pleroma.service.planes.traffic_metrics import packet_metrics
from pleroma.switches.switch_status import SwitchStatus
from pleroma.switches.tracing.meeting import SwitchRules, SwitchStanding
from pleroma.wire.attach import SECRET_BYTES
from pleroma.wire.socket_sessions import SocketAddress

BROKER_HOST = HostId("broker")
BROKER_SWITCH = SwitchId("B1")
BROKER_TOPOLOGY = Topology((BROKER_SWITCH,), (Host(BROKER_HOST, BROKER_SWITCH, Port(1), "fd00::1"),), ())


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`above` is the broker that this one is joined to, if any."""

    above: BrokerAbove | None = None


@asynccontextmanager
async def over_broker(
    folder: Path,
    control: ControlSettings | None,
    settings: BrokerSettings,
    taken: socket.socket,
    *,
    has_tags: bool = False,
) -> AsyncIterator[tuple[Controller, BrokerPlane]]:
    """A controller whose registrations a broker at this UDP socket follows. With `has_tags`, events have them."""
    # the broker matches filters and needs no regions, so a region is as coarse as can be
    coarse = replace(control or ControlSettings(), max_members=1)
    needed = NeededAbove()
    upstream = None if settings.above is None else Upstream(settings.above, needed)
    confirmed = None if upstream is None else upstream.confirmed
    async with AsyncExitStack() as stack:
        stack.callback(taken.close)
        controller = await stack.enter_async_context(
            await Controller.open(folder, BROKER_TOPOLOGY, _NoSwitches(), coarse, also_wait_for=confirmed)
        )
        match_state = MatchState(EventKeys.open(folder).secret if has_tags else None)
        match_state.follow(controller.state.registrations)
        controller.state.plans.on_removed(match_state.forget)
        controller.on_extended(lambda entry: match_state.extend(entry, _registered(controller, entry)))
        plane = BrokerPlane(taken, match_state, controller, upstream)
        stack.callback(plane.broker.close)
        if upstream is not None:
            needed.follow(controller.state.registrations)
            controller.on_extended(lambda entry: needed.extend(entry.name, _registered(controller, entry)))
            await stack.enter_async_context(upstream.joined(plane.broker, partial(_learn, controller, has_tags)))
        yield controller, plane


def _registered(controller: Controller, entry: SchemaEntry) -> list[Registered]:
    return [each for each in controller.state.registrations.values() if each.entry is entry]


async def _learn(controller: Controller, has_keys: bool, schema: Schema) -> None:
    """Have a schema of the broker above here, in its last version, unless another has its name, or it takes keys."""
    known = controller.state.schemas.get(schema.name)
    if known is None and (has_keys or not schema.encrypted):
        with suppress(AlreadyThere):
            await controller.submit(CreateSchema(schema))
    elif known is not None and schema not in known.versions and not obstacles(known.schema, schema):
        await controller.submit(ExtendSchema(schema))


class _NoSwitches:
    """The network of a controller that has no switches: the broker reads the registrations themselves."""

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """Nothing to do: there are no tables."""


class BrokerPlane:
    kind = "broker"
    addresses = IPV6
    learns = False
    count_lag_seconds = 0.0
    counts_by_principal = True
    forwards_by_rules = False
    base_priority = 0

    def __init__(
        self, taken: socket.socket, match_state: MatchState, controller: Controller, upstream: Upstream | None
    ) -> None:
        pass_up = None if upstream is None else upstream.pass_up
        self._entry = EntryGuard()
        self.broker = Broker(
            taken, match_state, on_request=self._on_request, pass_up=pass_up, on_forged=self._count_forged
        )
        self.upstream = upstream
        self._controller = controller
        controller.state.principals.on_removed(self.broker.forget)
        self.requests: InbandServer[tuple[bytes, SocketAddress]] | None = None
        """Answers API requests that come as datagrams, while `serving`."""

    @asynccontextmanager
    async def serving(self, app: FastAPI) -> AsyncIterator[None]:
        requests = self.requests = InbandServer(app, self._controller, BrokerCarrier(self.broker), _OneHost())
        try:
            yield
        finally:
            self.requests = None
            await requests.close()

    def _on_request(self, payload: bytes, sender: SocketAddress) -> bool:
        if self.requests is None:
            return False
        self.requests.arrived((payload, sender))
        return True

    def _count_forged(self, program: Program) -> None:
        self._entry.count(BROKER_HOST, program.owner.principal, program.socket)

    def forged(self) -> Mapping[tuple[HostId, str], int]:
        return self._entry.forged

    def topology(self) -> Topology:
        return BROKER_TOPOLOGY

    def rooms(self) -> Mapping[SwitchId, int]:
        return {}

    def attach(
        self,
        host: Host,  # noqa: ARG002
        seconds: float,
        principal: str,
        lease: str | None,
        token: str,
        on_end: Callable[[], None],
    ) -> dict[str, Any]:
        secret = secrets.token_bytes(SECRET_BYTES)
        self.broker.admit(secret, ProgramOwner(principal, lease), seconds, on_end, token=token)
        address, port = self.broker.address
        # a broker that listens on all addresses leaves out its own: the program used the one that it reaches
        known = {} if ip_address(address).is_unspecified else {"udp_host": address}
        return {"network": "tunnel", "port": port, "secret": secret.hex(), **known}

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        self.broker.programs.sessions.dismiss(is_worthless)
        if self.requests is not None:
            self.requests.sessions.dismiss(is_worthless)

    def attached(self) -> Mapping[HostId, int]:
        return {BROKER_HOST: self.broker.attached()}

    def standing(self, switch: SwitchId, in_port: Port, event: Dz) -> SwitchStanding:  # noqa: ARG002
        return SwitchStanding("ready", None)

    async def read_rules(self, switch: SwitchId, seconds: float) -> SwitchRules | None:  # noqa: ARG002
        """There are none."""
        return None

    async def count_packets(self, switch: SwitchId, seconds: float) -> Mapping[Dz, int] | None:  # noqa: ARG002
        return None

    def hosts(self) -> Mapping[str, dict[str, int]]:
        return {BROKER_HOST: asdict(self.broker.counters)}

    def published(self, host: HostId, principal: str) -> int | None:  # noqa: ARG002
        return self.broker.published_by[principal]

    def switches(self) -> Mapping[SwitchId, SwitchStatus]:
        return {BROKER_SWITCH: SwitchStatus()}

    def presence(self) -> Presence:
        return Presence()

    def on_change(self, listener: Callable[[], object]) -> None:
        """A broker has no switches or links that could come or go."""

    def failure_above(self) -> str | None:
        upstream = self.upstream
        if upstream is None or (upstream.is_connected and upstream.failure is None):
            return None
        return f"the broker above: {upstream.failure or 'not connected'}"

    def brokers(self) -> list[str]:
        return [] if self.upstream is None else [self.upstream.name, *self.upstream.names_above]

    def condition(self) -> dict[str, Any]:
        above = {} if self.upstream is None else {"above": self.upstream.condition()}
        return {"listening": "{}:{}".format(*self.broker.address), **above}

    def metrics(self) -> Iterator[Metric]:
        yield gauge(
            "pleroma_attachments", "Programs admitted to a host", [(BROKER_HOST, float(self.broker.attached()))], "host"
        )
        yield from packet_metrics("at the broker's port", asdict(self.broker.counters))
        if self.upstream is not None:
            joined = [("", float(self.upstream.is_connected))]
            yield gauge("pleroma_upstream_connected", "1 while the broker above is there", joined)
        if self.requests is not None:
            yield from self.requests.metrics()


class BrokerCarrier:
    """In-band requests at the broker's UDP port. A place is the address and the port that a program sends from."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def place(self, arrival: tuple[bytes, SocketAddress]) -> Place:
        _, sender = arrival
        return SwitchId(sender[0]), Port(sender[1])

    def origin(self, arrival: tuple[bytes, SocketAddress]) -> str:
        return str(arrival[1][0])

    def read(self, arrival: tuple[bytes, SocketAddress]) -> tuple[Peer, bytes]:
        payload, sender = arrival
        name, port = sender[:2]
        return Peer(self.place(arrival), "", ip_address(name.partition("%")[0]), port), payload

    def send(self, peer: Peer, data: bytes) -> bool:
        return self._broker.send(data, (str(peer.place[0]), peer.port))


class _OneHost:
    """Admits every program to the one host that a broker has."""

    def host_at(self, place: Place) -> Host:  # noqa: ARG002
        return BROKER_TOPOLOGY.hosts[0]

    async def admit(self, peer: Peer, wanted_name: str) -> HostId:  # noqa: ARG002
        return BROKER_HOST

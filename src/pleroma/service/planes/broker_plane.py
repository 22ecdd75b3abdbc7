"""The service on a broker instead of switches: the same control plane and API, and events carried in software.

All programs are at one host. What they ask for is matched by the broker itself, so a registration is in force as soon
as it stands, and there is nothing to install. The API is answered at the broker's own UDP port too, for programs that
know nothing but that (`wire.inband`).
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client.core import Metric
from starlette.types import ASGIApp

from pleroma.broker import Broker, MatchState, ProgramOwner
from pleroma.broker.programs import SocketAddress
from pleroma.broker.upstream import BrokerAbove, Upstream
from pleroma.content import Schema
from pleroma.control import Controller, ControlSettings, CreateSchema
from pleroma.errors import AlreadyThere
from pleroma.index.address import IPV6
from pleroma.index.dz import Dz
from pleroma.routing import Host, HostId, Presence, SwitchId, SwitchOp, Topology
from pleroma.routing.presence import Place
from pleroma.routing.topology import Port
from pleroma.service.http.metrics import counter, gauge
from pleroma.service.inband.host_admission import Joining
from pleroma.service.inband.inband_server import InbandServer, Peer
from pleroma.service.planes.data_plane import SECRET_BYTES
from pleroma.switches.live.event_trace import Trace

HOST = HostId("broker")
SWITCH = SwitchId("B1")
TOPOLOGY = Topology((SWITCH,), (Host(HOST, SWITCH, Port(1), "fd00::1"),), ())


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`above` is the broker that this one is joined to, if any."""

    above: BrokerAbove | None = None


@asynccontextmanager
async def over_broker(
    folder: Path, control: ControlSettings | None, settings: BrokerSettings, taken: socket.socket
) -> AsyncIterator[tuple[Controller, BrokerPlane]]:
    """A controller whose registrations a broker at this UDP socket follows."""
    # regions are of no use here, so they may be as coarse as can be
    coarse = replace(control or ControlSettings(), max_members=1)
    upstream = None if settings.above is None else Upstream(settings.above)
    standing = MatchState(upstream)
    broker = Broker(taken, standing)
    settled = None if upstream is None else upstream.settled
    try:
        async with (
            await Controller.open(folder, TOPOLOGY, _Nothing(), coarse, settled=settled) as controller,
            AsyncExitStack() as stack,
        ):
            standing.follow(controller.state.registrations)
            if upstream is not None:
                upstream.join(broker, partial(_learn, controller))
                await stack.enter_async_context(upstream)
            plane = BrokerPlane(broker, controller, upstream)
            stack.push_async_callback(plane.close)
            yield controller, plane
    finally:
        broker.close()


async def _learn(controller: Controller, schema: Schema) -> None:
    """Have a schema of the broker above, unless there is one of this name."""
    if schema.name not in controller.state.schemas:
        with suppress(AlreadyThere):
            await controller.submit(CreateSchema(schema))


class _Nothing:
    """There are no switches."""

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """They are all in force."""


class BrokerPlane:
    kind = "broker"
    addresses = IPV6
    learns = False

    def __init__(self, broker: Broker, controller: Controller, upstream: Upstream | None = None) -> None:
        self.broker = broker
        self.upstream = upstream
        self._controller = controller
        self.requests: BrokerRequests | None = None

    def serve(self, app: FastAPI) -> None:
        """Answer requests that come as datagrams."""
        self.requests = BrokerRequests(app, self._controller, self.broker)

    async def close(self) -> None:
        if self.requests is not None:
            await self.requests.close()

    def rewire(self) -> None:
        """Nothing ever comes or goes."""

    def topology(self) -> Topology:
        return TOPOLOGY

    def attach(self, host: Host, seconds: float, principal: str, lease: str | None) -> dict[str, Any]:  # noqa: ARG002
        secret = secrets.token_bytes(SECRET_BYTES)
        self.broker.admit(secret, ProgramOwner(principal, lease), seconds)
        address, port = self.broker.address
        # who listens everywhere cannot say under which address it is known: the program knows, since it came here
        known = {} if ip_address(address).is_unspecified else {"udp_host": address}
        return {"network": "tunnel", "port": port, "secret": secret.hex(), **known}

    def attached(self) -> Mapping[HostId, int]:
        return {HOST: self.broker.attached()}

    def trace(self, host: str, dz: Dz) -> Trace:
        """Every event comes to the one place where all subscriptions are."""
        return Trace(TOPOLOGY.find_host(host).name, dz, (), (HOST,), False)

    def hosts(self) -> Mapping[str, dict[str, int]]:
        return {HOST: asdict(self.broker.counters)}

    def switches(self) -> Mapping[SwitchId, dict[str, Any]]:
        return {SWITCH: {"state": "ready"}}

    def presence(self) -> Presence:
        return Presence()

    def condition(self) -> dict[str, Any]:
        above = {} if self.upstream is None else {"above": self.upstream.condition()}
        return {"listening": "{}:{}".format(*self.broker.address), **above}

    def metrics(self) -> Iterator[Metric]:
        yield gauge(
            "pleroma_attachments", "Programs admitted to a host", [(HOST, float(self.broker.attached()))], "host"
        )
        fates = [(name, float(count)) for name, count in asdict(self.broker.counters).items()]
        yield counter("pleroma_packets", "Packets at the broker's port, by what became of them", fates, "fate")
        if self.upstream is not None:
            joined = [("", float(self.upstream.is_connected))]
            yield gauge("pleroma_upstream_connected", "1 while the broker above is there", joined)
        vain = self.requests.counts.items() if self.requests else ()
        yield counter("pleroma_in_band_packets", "In-band packets that were not answered, by reason", vain, "reason")


class BrokerRequests(InbandServer):
    """Requests at the broker's port. A place is the address and the port that a program sends from."""

    def __init__(self, app: ASGIApp, controller: Controller, broker: Broker) -> None:
        super().__init__(app, controller, lambda *_: False)
        self._broker = broker
        self._joining = _AtTheBroker(controller, lambda _: False, lambda: None)
        broker.asked = self.asked

    def asked(self, payload: bytes, sender: SocketAddress) -> None:
        """A datagram. Nothing in it can raise an error."""
        name, port = sender[:2]
        if self._arrivals.take(f"{name} {port}"):
            self.counts["too fast"] += 1
            return
        address = ip_address(name.partition("%")[0])
        self.received(Peer((SwitchId(name), Port(port)), "", address, port), payload)

    def _reply(self, peer: Peer, data: bytes) -> None:
        if not self._broker.send(data, (str(peer.place[0]), peer.port)):
            self.counts["unsent"] += 1


class _AtTheBroker(Joining):
    """Wherever it comes from."""

    def at(self, place: Place) -> Host | None:  # noqa: ARG002
        return TOPOLOGY.hosts[0]

    async def host(self, *_: object) -> HostId:
        return HOST

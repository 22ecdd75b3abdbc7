"""The service on simulated switches in its own process; a host is a port on the loopback interface."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client.core import Metric

from pleroma.control import Controller, ControlSettings
from pleroma.control.entry_guard import EntryGuard
from pleroma.index.address import IPV6
from pleroma.index.dz import Dz
from pleroma.routing import Host, HostId, Port, Presence, SwitchId, Topology
from pleroma.service.metric_families import counter, gauge
from pleroma.service.planes.shared_lead import SharedLead
from pleroma.service.planes.traffic_metrics import link_metrics, packet_metrics
from pleroma.switches.live.live_network import LOOPBACK, LiveNetwork
from pleroma.switches.simulated.network_counters import HostCounters
from pleroma.switches.switch_status import SwitchStatus
from pleroma.switches.tracing.meeting import SwitchRules, SwitchStanding
from pleroma.wire.attach import SECRET_BYTES


@asynccontextmanager
async def over_embedded(
    folder: Path, topology: Topology, control: ControlSettings | None, shared: SharedLead | None = None
) -> AsyncIterator[tuple[Controller, EmbeddedPlane]]:
    """A controller whose rules are installed on simulated switches; with a shared log, it leads those who follow it."""
    entry = EntryGuard()
    async with (
        LiveNetwork(topology, loopback=True, guarded=True, entry=entry) as network,
        await Controller.open(folder, topology, network, control, **SharedLead.options(shared)) as controller,
    ):
        entry.follow(controller.state.registrations)
        controller.state.principals.on_removed(network.forget)
        yield controller, EmbeddedPlane(network)


class EmbeddedPlane:
    kind = "embedded"
    addresses = IPV6
    learns = False
    count_lag_seconds = 0.0
    counts_by_principal = True
    forwards_by_rules = True
    base_priority = 0

    def __init__(self, network: LiveNetwork) -> None:
        self.network = network

    def serving(self, app: FastAPI) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def forged(self) -> Mapping[tuple[HostId, str], int]:
        return self.network.forged

    def topology(self) -> Topology:
        return self.network.topology

    def rooms(self) -> Mapping[SwitchId, int]:
        return {}

    def attach(
        self,
        host: Host,
        seconds: float,
        principal: str,
        lease: str | None,  # noqa: ARG002
        token: str,
        on_end: Callable[[], None],
    ) -> dict[str, Any]:
        secret = secrets.token_bytes(SECRET_BYTES)
        self.network.admit(host.name, secret, seconds, principal, on_end, token=token)
        return {
            "network": "tunnel",
            "udp_host": LOOPBACK,
            "port": self.network.ports[host.name],
            "secret": secret.hex(),
        }

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        self.network.dismiss(is_worthless)

    def attached(self) -> Mapping[HostId, int]:
        return self.network.sessions()

    def standing(self, switch: SwitchId, in_port: Port, event: Dz) -> SwitchStanding:
        return SwitchStanding("ready", self.network.rules(switch).meet(in_port, event))

    async def read_rules(self, switch: SwitchId, seconds: float) -> SwitchRules | None:  # noqa: ARG002
        return self.network.rules(switch)

    async def count_packets(self, switch: SwitchId, seconds: float) -> Mapping[Dz, int] | None:  # noqa: ARG002
        return None

    def hosts(self) -> Mapping[str, dict[str, int]]:
        return {name: asdict(counted) for name, counted in self.network.hosts.items()}

    def published(self, host: HostId, principal: str) -> int | None:
        return self.network.published_by(host)[principal]

    def switches(self) -> Mapping[SwitchId, SwitchStatus]:
        return {name: SwitchStatus() for name in self.network.topology.switches}

    def presence(self) -> Presence:
        return Presence()

    def on_change(self, listener: Callable[[], object]) -> None:
        """Simulated switches and links neither come nor go."""

    def failure_above(self) -> str | None:
        return None

    def brokers(self) -> list[str]:
        return []

    def condition(self) -> dict[str, Any]:
        return {}

    def metrics(self) -> Iterator[Metric]:
        network = self.network
        attached = [(str(host), float(count)) for host, count in network.sessions().items()]
        yield gauge("pleroma_attachments", "Programs admitted to a host", attached, "host")
        totals = {
            each.name: sum(getattr(x, each.name) for x in network.hosts.values()) for each in fields(HostCounters)
        }
        yield from packet_metrics("at the hosts' ports", totals)
        sent = {
            (SwitchId(line.source), line.source_port): (counted.sent, counted.sent_bytes)
            for line, counted in network.by_line().items()
            if line.source_port is not None
        }
        yield from link_metrics(network.topology, sent)
        switches = network.switches
        lookups = [(str(name), float(counted.lookups)) for name, counted in switches.items()]
        misses = [(str(name), float(counted.misses)) for name, counted in switches.items()]
        yield counter("pleroma_switch_lookups", "Packets that a switch looked up", lookups, "switch")
        yield counter("pleroma_switch_misses", "Packets that met no rule", misses, "switch")

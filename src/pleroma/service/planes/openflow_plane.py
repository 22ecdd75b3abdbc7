"""The controller on OpenFlow switches: how it is started, and what the service asks of such a network."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client.core import Metric

from pleroma.control import Controller, ControlSettings, ControlState, PlanChangeTiming
from pleroma.control.state.command import Rewire
from pleroma.control.state.present_network import discovered_wiring, presence_of, rewire_of
from pleroma.errors import SetupError, SwitchFenced, TopologyError
from pleroma.index.address import IPV6, AddressRange
from pleroma.index.dz import Dz
from pleroma.routing import Host, HostId, Port, Presence, SwitchId, Topology
from pleroma.routing.presence import Place
from pleroma.routing.topology_files import from_json
from pleroma.service.inband.host_admission import HostAdmission
from pleroma.service.inband.inband_server import InbandServer
from pleroma.service.inband.switch_carrier import SwitchCarrier
from pleroma.service.metric_families import counter
from pleroma.service.planes.shared_lead import SharedLead
from pleroma.service.planes.traffic_metrics import link_metrics
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.openflow.discovered_topology import EMPTY_TOPOLOGY, DiscoveredTopology
from pleroma.switches.openflow.openflow_network import LISTEN_ADDRESS, Arrival, OpenFlowNetwork
from pleroma.switches.openflow.switch_certificates import SwitchCertificates
from pleroma.switches.openflow.tables import CELL_PRIORITY
from pleroma.switches.switch_status import SwitchStatus
from pleroma.switches.tracing.meeting import SwitchRules, SwitchStanding
from pleroma.wire.ports import EVENTS_PORT

DISCOVERED_TOPOLOGY_FILE = "wiring.json"
SWITCH_CERTIFICATES_FILE = "switch-certificates"
SWITCH_CACHE_SECONDS = 2.5
"""For so long after it confirmed a change, a switch may still forward by its earlier rules.

Open vSwitch confirms a change before its cache follows. By default it revalidates the cache every half second at the
latest, and that takes a while. On a busy machine its revalidators were seen to stand still for more than a second
longer, and a plan change that had waited for one second lost events. No message of OpenFlow tells when it is done.
"""


@dataclass(frozen=True, slots=True)
class OpenFlowSettings:
    """`discovers` takes any switch that connects, and finds out how they are joined; else the topology says it."""

    listen: tuple[str, int] = LISTEN_ADDRESS
    tls: ssl.SSLContext | None = None
    discovers: bool = False
    addresses: AddressRange = IPV6
    domain: str = "pleroma"
    timeouts: SwitchTimeouts = field(default_factory=SwitchTimeouts)
    generation: int | None = None
    """Where several controllers take turns: which turn this is. Switches obey no controller of an earlier one."""
    on_fenced: Callable[[SwitchFenced], None] = lambda _: None
    """Called once, when a switch obeys a controller of a later turn."""


@asynccontextmanager
async def over_openflow(
    folder: Path,
    topology: Topology,
    control: ControlSettings | None,
    settings: OpenFlowSettings,
    shared: SharedLead | None = None,
) -> AsyncIterator[tuple[Controller, OpenFlowPlane]]:
    """A controller whose rules are installed on all switches that are connected."""
    discovered = DiscoveredTopology(EMPTY_TOPOLOGY if settings.discovers else topology, discovers=settings.discovers)
    if control is None:
        control = ControlSettings.within(settings.addresses.bits)
    network = OpenFlowNetwork(
        discovered,
        addresses=settings.addresses,
        listen=settings.listen,
        tls=settings.tls,
        timeouts=settings.timeouts,
        domain=settings.domain,
        certificates=None if settings.tls is None else SwitchCertificates(folder / SWITCH_CERTIFICATES_FILE),
        generation=settings.generation,
        on_fenced=settings.on_fenced,
    )
    base = EMPTY_TOPOLOGY if settings.discovers else topology
    timing = PlanChangeTiming(in_flight_seconds=SWITCH_CACHE_SECONDS)
    async with (
        network,
        await Controller.open(
            folder,
            base,
            network,
            control,
            resume=partial(_resume, network, folder),
            timing=timing,
            **SharedLead.options(shared),
        ) as controller,
    ):
        plane = OpenFlowPlane(network, controller)
        with network.watched_by(plane):
            await plane.rewire()
            yield controller, plane


def _resume(network: OpenFlowNetwork, folder: Path, state: ControlState) -> Rewire | None:
    """Begin with the network as the log has it, so that switches keep their rules over a restart.

    Earlier versions wrote the network that was discovered to a file, and nothing of it to the log.
    """
    found = None
    if network.discovered.discovers:
        known = discovered_wiring(state.there)
        found = _saved_topology(folder) if known is None else None
        network.discovered.know(known or found or EMPTY_TOPOLOGY)
    rooms = {SwitchId(name): room for name, room in state.there.rooms}
    network.resume(presence_of(state.there), rooms, lambda: state.topology.hosts)
    return rewire_of(Presence(), {}, found) if found is not None and found.switches else None


class OpenFlowPlane:
    """OpenFlow switches that connect to the controller. It routes on those that are connected."""

    kind = "openflow"
    count_lag_seconds = 3.0
    counts_by_principal = False
    forwards_by_rules = True
    base_priority = CELL_PRIORITY

    def __init__(self, network: OpenFlowNetwork, controller: Controller) -> None:
        self.network = network
        self.addresses = network.rule_layout.addresses
        self._controller = controller
        self._known: tuple[tuple[Topology, tuple[Host, ...], dict[SwitchId, int]], Topology] | None = None
        """The whole known network, after what it was made of."""
        self._listeners: list[Callable[[], object]] = []
        self.requests: InbandServer[Arrival] | None = None
        """Answers API requests that come through the switches, while `serving`."""

    @property
    def learns(self) -> bool:
        return self.network.discovered.discovers

    async def rewire(self) -> None:
        """Route on the switches, links and hosts that are there now.

        As long as no switch is connected, nothing is known of any, and they go on by the rules that they have.
        """
        for listener in self._listeners:
            asyncio.get_running_loop().call_soon(listener)
        if self.network.is_cut_off:
            return
        network, discovered = self.network, self.network.discovered
        found = discovered.topology if discovered.discovers else None
        await self._controller.rewire(rewire_of(network.presence, network.limits, found))

    @asynccontextmanager
    async def serving(self, app: FastAPI) -> AsyncIterator[None]:
        """Answer programs that have no other way to the API than through the switches."""
        admission = HostAdmission(self._controller, may_join=self._may_join)
        self.requests = InbandServer(app, self._controller, SwitchCarrier(self.network.send), admission)
        try:
            yield
        finally:
            requests, self.requests = self.requests, None
            await requests.close()

    def packet_arrived(self, arrival: Arrival) -> None:
        """A switch passed up a packet for the controller."""
        if self.requests is not None:
            self.requests.arrived(arrival)

    def _may_join(self, place: Place) -> bool:
        """Whether an unknown host may join at a place: only at a port that leads to no other switch."""
        discovered = self.network.discovered
        ends = (end for link in discovered.topology.links for end in link.ends)
        return self.learns and place not in discovered.borders and place not in ends

    def forged(self) -> Mapping[tuple[HostId, str], int]:
        """No switch looks into a packet; only who receives a forged one notices."""
        return {}

    def topology(self) -> Topology:
        hosts, limits = self._controller.topology.hosts, dict(self.network.limits)
        made_of = self.network.discovered.topology, hosts, limits
        if self._known is None or self._known[0] != made_of:  # a large network is not made anew for everybody who asks
            self._known = made_of, self.network.discovered.with_hosts(hosts, limits)
        return self._known[1]

    def rooms(self) -> Mapping[SwitchId, int]:
        return self.network.limits

    def attach(
        self,
        host: Host,
        seconds: float,  # noqa: ARG002
        principal: str,  # noqa: ARG002
        lease: str | None,  # noqa: ARG002
        token: str,  # noqa: ARG002
        on_end: Callable[[], None],
    ) -> dict[str, Any]:
        """Let a program use its host's own network, for as long as its lease lasts."""
        is_away = host.switch in self.network.presence.absent
        if is_away or host.name not in self._controller.state.router.topology.host:
            raise SetupError(f"{host.name} is not connected at the moment", field="host", value=host.name)
        on_end()  # nothing is kept of the program: its host is on the network anyway
        return {"network": "native", "port": EVENTS_PORT}

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        """Nothing is kept of programs themselves: what they registered goes by leases, or with their rights."""
        if self.requests is not None:
            self.requests.sessions.dismiss(is_worthless)

    def attached(self) -> Mapping[HostId, int]:
        return {}

    def standing(self, switch: SwitchId, in_port: Port, event: Dz) -> SwitchStanding:
        return self.network.standing(switch, in_port, event)

    async def read_rules(self, switch: SwitchId, seconds: float) -> SwitchRules | None:
        return await self.network.read_rules(switch, seconds)

    async def count_packets(self, switch: SwitchId, seconds: float) -> Mapping[Dz, int] | None:
        return await self.network.count_packets(switch, seconds)

    def hosts(self) -> Mapping[str, dict[str, int]]:
        return {}

    def published(self, host: HostId, principal: str) -> int | None:  # noqa: ARG002
        at = self._controller.topology.host.get(host)
        return None if at is None else self.network.admitted.at((at.switch, at.port))

    def switches(self) -> Mapping[SwitchId, SwitchStatus]:
        return self.network.status()

    def presence(self) -> Presence:
        return self.network.presence

    def on_change(self, listener: Callable[[], object]) -> None:
        self._listeners.append(listener)

    def failure_above(self) -> str | None:
        return None

    def brokers(self) -> list[str]:
        return []

    def condition(self) -> dict[str, Any]:
        return {
            "listening": "{}:{}".format(*self.network.address),
            "strangers": {f"{number:x}": peer for number, peer in self.network.strangers.items()},
            "borders": {f"{switch} {port}": said for (switch, port), said in self.network.discovered.borders.items()},
        }

    def metrics(self) -> Iterator[Metric]:
        counted = {switch: asdict(each.counts) for switch, each in self.network.status().items()}
        for name, (metric, text) in _UPKEEP.items():
            yield counter(metric, text, [(str(switch), each[name]) for switch, each in counted.items()], "switch")
        yield from link_metrics(self.network.discovered.topology, self.network.sent())
        beacons = [(reason, float(count)) for reason, count in self.network.ignored_beacons.items()]
        yield counter("pleroma_beacons_ignored", "Beacons that made no link, by reason", beacons, "reason")
        if self.requests is not None:
            yield from self.requests.metrics()


_UPKEEP = {
    "changed": ("pleroma_switch_rules_changed", "Rules that were changed on a switch"),
    "read": ("pleroma_switch_table_reads", "Times that a switch's table was read"),
    "repaired": ("pleroma_switch_rules_repaired", "Rules that somebody else had changed, and that were put right"),
    "refusals": ("pleroma_switch_refusals", "Bundles that a switch refused"),
    "silent": ("pleroma_switch_silences", "Bundles that a switch did not answer in time"),
}
"""By field of `UpkeepCounts`."""


def _saved_topology(folder: Path) -> Topology:
    """The topology that an earlier version discovered, and kept beside the log."""
    path = folder / DISCOVERED_TOPOLOGY_FILE
    if not path.exists():
        return EMPTY_TOPOLOGY
    try:
        return from_json(json.loads(path.read_bytes()), whole=False)
    except ValueError as error:
        raise TopologyError(f"is not valid JSON: {error}", field=str(path)) from None

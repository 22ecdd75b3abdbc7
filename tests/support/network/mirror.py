"""A simulated network that follows the same requests, and tells what the real one has to look like."""

from collections.abc import Mapping
from typing import Any

from pleroma.content import Event
from pleroma.control import Command, ControlSettings, ControlState, Done
from pleroma.index import Dz
from pleroma.routing import Change, FlowOp, FlowTable, HostId, Port, SwitchId, Topology
from pleroma.switches import EmbeddedNetwork, Packet


class Mirror:
    def __init__(self, topology: Topology, settings: ControlSettings) -> None:
        self.state = ControlState(topology, settings)
        self.network = EmbeddedNetwork(topology)
        self._follows = True
        self._position = 1  # what a log begins with

    def apply(self, command: Command, position: int | None = None) -> dict[str, Any]:
        """Carry out a command; where the real log has it is told, if that is known, since ids follow from it."""
        self._position = self._position + 1 if position is None else position
        done = self.state.apply(self._position, command)
        assert isinstance(done, Done), done
        if self._follows:
            self.network.install(done.flows)
        return done.value

    def adopt(self, tables: Mapping[SwitchId, FlowTable]) -> None:
        """After a failure: which tree is used then depends on the order in which it was noticed."""
        self._follows = False
        self.network = EmbeddedNetwork(self.state.topology)
        self.network.install(FlowOp(s, Change.ADD, flow) for s, table in tables.items() for flow in table)

    @property
    def tables(self) -> Mapping[SwitchId, FlowTable]:
        return self.network.flow_tables()

    @property
    def admitted(self) -> dict[tuple[SwitchId, Port], set[Dz]]:
        hosts = self.state.topology.host
        cells = {(hosts[h].switch, hosts[h].port): set(self.state.rules.admissions.of(h)) for h in hosts}
        return {place: dzs for place, dzs in cells.items() if dzs}

    def dz(self, event: Event) -> Dz:
        entry = self.state.schemas[event.schema.name]
        (dz,) = entry.index.dzs(event)
        return entry.prefix.then(dz)

    def receivers(self, host: HostId, event: Event) -> list[HostId]:
        """The hosts that an event comes to by the rules, once for each time that it does."""
        dz = self.dz(event)
        if not self.state.rules.admissions.admits(host, dz):
            return []
        self.network.publish(host, Packet(dz))
        return [delivery.host for delivery in self.network.run()]

    def wanting(self, host: HostId, event: Event) -> set[HostId]:
        """The hosts that must get an event, which is a matter of filters alone: whoever advertised it is heard."""
        there = [r for r in self.state.registrations.values() if r.schema == event.schema.name]
        covered = any(r.kind == "advertisement" and r.host == host and r.filter.matches(event) for r in there)
        if not covered:
            return set()
        return {r.host for r in there if r.kind == "subscription" and r.filter.matches(event)} - {host}

"""The embedded network: switches, links and hosts in one process, event by event.

This is a discrete-event simulation with a clock of its own, so the same calls give the same result to the last digit.
Tables can change, links be cut and switches be lost while packets are under way: the promises about plan changes are
tested on it. For large numbers of events through tables that do not change there is `batch_forwarding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from pleroma.errors import RoutingError, UnknownName
from pleroma.routing.detour import RuleOp
from pleroma.routing.flow import FlowTable
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches.simulated.cables import Cables, Line, Trail
from pleroma.switches.simulated.clock import Clock
from pleroma.switches.simulated.installation import Installation, Refusal
from pleroma.switches.simulated.network_counters import LineCounters, PortCounters, SwitchCounters
from pleroma.switches.simulated.packet import Delivery, Packet
from pleroma.switches.simulated.simulated_table import SimulatedTable


class EmbeddedNetwork:
    """With `capacity`, a packet needs its transmission time on each line, and waits for the packets before it.

    The public attributes are only to be read, but `deliveries` may be emptied.
    """

    def __init__(self, topology: Topology, *, capacity: bool = False) -> None:
        self.topology = topology
        self.cables = Cables(topology)
        self.clock = Clock()
        self.tables = {s: SimulatedTable(s, topology.limits.get(s)) for s in topology.switches}
        self.counters = {s: SwitchCounters() for s in topology.switches}
        self.line_counters = tuple(LineCounters() for _ in self.cables.lines)
        self.misaddressed = {h.name: 0 for h in topology.hosts}
        """Packets that came to a host under another address than its own, and that it did not take."""
        self.deliveries: list[Delivery] = []
        self._capacity = capacity
        self._listeners: dict[HostId, Callable[[Delivery], None]] = {}
        self._uplink = {h.name: self.cables.uplink(number) for number, h in enumerate(topology.hosts)}
        self._dead: set[SwitchId] = set()
        self._cut: set[int] = set()
        self._breaks = [0 for _ in self.cables.lines]  # how often a break lost what was on the line
        self._free = [0.0 for _ in self.cables.lines]  # when the line has sent all that it was given
        self._ready = dict.fromkeys(topology.switches, 0.0)  # when the switch has done all operations so far
        self._backlog = dict.fromkeys(topology.switches, 0)

    @property
    def now(self) -> float:
        return self.clock.now

    def install(
        self,
        ops: Iterable[RuleOp],
        *,
        atomic: bool = False,
        delay: Callable[[RuleOp], float] | None = None,
        failure: Callable[[RuleOp], Exception | None] | None = None,
        then: Callable[[Installation], None] | None = None,
    ) -> Installation:
        """Change tables; with `atomic`, the operations of each switch are one bundle.

        Switches work at the same time, each on one operation after the other, in the given order and for `delay`
        seconds each; without delay all is done on return. The result reports the operations that a switch refuses, or
        for which `failure` names an error. `then` is called when no operation is pending any more.
        """
        installation = Installation(tuple(ops))
        groups: dict[SwitchId, list[tuple[float, RuleOp]]] = {}
        for op in installation.ops:
            self._known(op.switch)
            seconds = 0.0 if delay is None else delay(op)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise RoutingError(f"a delay of {seconds} seconds for {op}", field="delay", value=seconds)
            groups.setdefault(op.switch, []).append((seconds, op))
        due: list[tuple[float, list[RuleOp]]] = []
        for switch, timed in groups.items():
            time = max(self.now, self._ready[switch])
            for seconds, op in timed:
                time += seconds
                if not atomic:
                    due.append((time, [op]))
            if atomic:
                due.append((time, [op for _, op in timed]))
            self._ready[switch] = time

        def carry_out(ops: list[RuleOp]) -> None:
            self._carry_out(ops, failure, installation)
            if not installation.pending:
                self._finish(installation, then)

        for time, group in due:
            if time <= self.now and not self._backlog[group[0].switch]:
                carry_out(group)
            else:
                self._backlog[group[0].switch] += 1
                self.clock.at(time, partial(self._catch_up, group, carry_out))
        if not due:
            self._finish(installation, then)
        return installation

    def table(self, switch: SwitchId) -> SimulatedTable:
        """The table of a switch; raises an error if there is no such switch."""
        return self.tables[self._known(switch)]

    def exchange(self, tables: Mapping[SwitchId, SimulatedTable]) -> None:
        """Put other tables in the place of those of some switches."""
        self.tables.update(tables)

    def _catch_up(self, ops: list[RuleOp], carry_out: Callable[[list[RuleOp]], None]) -> None:
        self._backlog[ops[0].switch] -= 1
        carry_out(ops)

    def _carry_out(
        self, ops: list[RuleOp], failure: Callable[[RuleOp], Exception | None] | None, installation: Installation
    ) -> None:
        switch = ops[0].switch
        error = None if failure is None else next((e for e in map(failure, ops) if e is not None), None)
        if switch in self._dead:
            error = RoutingError("the switch is down", field=switch)
        if error is None:
            try:
                self.tables[switch].bundle(ops)
            except RoutingError as refused:
                error = refused
        if error is None:
            installation.applied += ops
        else:
            installation.refused += [Refusal(op, error) for op in ops]

    def _finish(self, installation: Installation, then: Callable[[Installation], None] | None) -> None:
        installation.finished = self.now
        if then is not None:
            then(installation)

    def flow_tables(self) -> dict[SwitchId, FlowTable]:
        """The rules of all switches as they are now."""
        return {switch: table.flows() for switch, table in self.tables.items()}

    def publish(self, host: str, packet: Packet, at: float | None = None) -> None:
        """Send from a host, now or at a time to come."""
        sender = self.topology.find_host(host)
        if packet.destination is not None:
            raise RoutingError(f"is already addressed to {packet.destination}", field="packet", value=packet)
        self.clock.at(self.now if at is None else at, partial(self._send, self._uplink[sender.name], packet, ()))

    def listen(self, host: str, callback: Callable[[Delivery], None]) -> None:
        """Call back on every delivery to a host from now on, in place of any callback before."""
        self._listeners[self.topology.find_host(host).name] = callback

    def run(self, until: float | None = None) -> list[Delivery]:
        """Let time pass until `until`, or until no packet is under way. Returns the deliveries meanwhile.

        Raises ForwardingLoop if a packet takes a line twice, or passes more switches than there are.
        """
        before = len(self.deliveries)
        self.clock.run(until)
        return self.deliveries[before:]

    def _send(self, number: int, packet: Packet, trail: Trail) -> None:
        traffic, line = self.line_counters[number], self.cables.lines[number]
        traffic.sent += 1
        traffic.sent_bytes += packet.size
        if not self._carries(number, line):
            traffic.lost += 1
            return
        leaves = self.now
        if self._capacity:
            leaves = self._free[number] = max(leaves, self._free[number]) + packet.size * 8 / line.capacity
        arrive = partial(self._arrive, number, packet, trail, self._breaks[number])
        self.clock.at(leaves + line.latency, arrive)

    def _arrive(self, number: int, packet: Packet, trail: Trail, breaks: int) -> None:
        traffic = self.line_counters[number]
        if breaks != self._breaks[number]:
            traffic.lost += 1
            return
        traffic.received += 1
        traffic.received_bytes += packet.size
        host = self.cables.host_behind(number)
        if host is None:
            self._switch(number, packet, trail)
        elif packet.destination == host.address:
            self._deliver(host, packet, len(trail))
        else:
            self.misaddressed[host.name] += 1

    def _switch(self, arrival: int, packet: Packet, trail: Trail) -> None:
        switch = SwitchId(self.cables.lines[arrival].target)
        counters = self.counters[switch]
        flow = None
        if packet.destination is None:  # once rewritten, it is no event that a rule could match
            trail = self.cables.further(trail, arrival, packet.dz)
            flow = self.tables[switch].forward(packet.dz, packet.size)
        counters.lookups += 1
        if flow is None:
            counters.misses += 1
            return
        for _, line, rewrite in self.cables.departures(arrival, flow):
            if line is None:
                counters.unconnected += 1
            else:
                self._send(line, packet if rewrite is None else replace(packet, destination=rewrite), trail)

    def _deliver(self, host: Host, packet: Packet, hops: int) -> None:
        delivery = Delivery(host.name, packet, self.now, hops)
        self.deliveries.append(delivery)
        if host.name in self._listeners:
            self._listeners[host.name](delivery)

    def set_link(self, link: Link, up: bool) -> None:
        """Cut a link or mend it; packets on the link when it is cut are lost."""
        numbers = self.cables.of(link)
        if up:
            self._cut.difference_update(numbers)
        else:
            self._cut.update(numbers)
            self._break(numbers)

    def set_switch(self, switch: str, up: bool, *, forget: bool = True) -> None:
        """Take a switch down with all its lines, or bring it back; its table is empty then, unless not to `forget`."""
        name = self._known(switch)
        if up:
            self._dead.discard(name)
            return
        self._dead.add(name)
        self._break(n for n, line in enumerate(self.cables.lines) if name in (line.source, line.target))
        if forget:
            self.tables[name].clear()

    def _break(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._breaks[number] += 1
            self._free[number] = self.now

    def _carries(self, number: int, line: Line) -> bool:
        return number not in self._cut and line.target not in self._dead  # a dead switch sends nothing

    def port(self, switch: str, port: int) -> PortCounters:
        """The counters of one port in use."""
        place = self._known(switch), Port(port)
        if place not in self.cables.leaving:
            raise RoutingError(f"nothing is connected to port {port}", field=switch, value=port)
        number = self.cables.leaving[place]
        sent, received = self.line_counters[number], self.line_counters[number ^ 1]
        return PortCounters(received.received, received.received_bytes, sent.sent, sent.sent_bytes)

    def by_line(self) -> Mapping[Line, LineCounters]:
        """The counters of every direction of every cable."""
        return dict(zip(self.cables.lines, self.line_counters, strict=True))

    @property
    def lost(self) -> int:
        """Packets lost on cut lines and dead switches, in all."""
        return sum(traffic.lost for traffic in self.line_counters)

    def _known(self, switch: str) -> SwitchId:
        if switch not in self.tables:
            raise UnknownName("switch", switch, self.topology.switches)
        return SwitchId(switch)

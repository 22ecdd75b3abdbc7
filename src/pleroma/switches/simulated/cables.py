"""The cables of a topology, one direction at a time.

Lines are numbered so that the two directions of a cable are 2k and 2k + 1: the opposite line is `number ^ 1`. The links
come first, then the hosts' cables, each up and down. All simulated networks count packets by these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pleroma.errors import ForwardingLoop, RoutingError
from pleroma.index.dz import Dz
from pleroma.routing.flow import Flow
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology


@dataclass(frozen=True, slots=True)
class Line:
    """One direction of a cable; the end at a host has no port number."""

    source: SwitchId | HostId
    source_port: Port | None
    target: SwitchId | HostId
    target_port: Port | None
    latency: float
    capacity: float

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


class Departure(NamedTuple):
    """The port that a packet leaves by, the line at that port (None: none), and the new destination, if any."""

    port: Port
    line: int | None
    rewrite: str | None


Trail = tuple[int, ...]
"""The lines by which a packet came to the switches that it has passed."""


@dataclass(frozen=True)
class Cables:
    """The lines of a topology, by number."""

    topology: Topology

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        lines = []
        for x in self.topology.links:
            lines.append(Line(x.a, x.a_port, x.b, x.b_port, x.latency, x.capacity))
            lines.append(Line(x.b, x.b_port, x.a, x.a_port, x.latency, x.capacity))
        for h in self.topology.hosts:
            lines.append(Line(h.name, None, h.switch, h.port, h.latency, h.capacity))
            lines.append(Line(h.switch, h.port, h.name, None, h.latency, h.capacity))
        return tuple(lines)

    @cached_property
    def leaving(self) -> Mapping[tuple[SwitchId, Port], int]:
        """The line that leaves at each port in use."""
        return {
            (SwitchId(line.source), line.source_port): number
            for number, line in enumerate(self.lines)
            if line.source_port is not None
        }

    def uplink(self, host: int) -> int:
        """The line from the host of this number to its switch."""
        return 2 * (len(self.topology.links) + host)

    def of(self, link: Link) -> tuple[int, int]:
        """The two directions of a link."""
        try:
            first = 2 * self.topology.links.index(link)
        except ValueError:
            raise RoutingError("is no link of this network", field=f"link {link.a}-{link.b}", value=link) from None
        return first, first + 1

    def host_behind(self, line: int) -> Host | None:
        """The host that the line leads to, if it leads to one."""
        place, down = divmod(line - 2 * len(self.topology.links), 2)
        return self.topology.hosts[place] if place >= 0 and down else None

    def departures(self, arrival: int, flow: Flow) -> Iterator[Departure]:
        """How a packet leaves that came by a line and matches this rule: never by the port of arrival."""
        came = self.lines[arrival]
        for port, rewrite in flow.outputs:
            if port != came.target_port:
                yield Departure(port, self.leaving.get((SwitchId(came.target), port)), rewrite)

    def further(self, trail: Trail, arrival: int, dz: Dz) -> Trail:
        """The trail and one line more.

        Raises ForwardingLoop if the trail has that line already, or leads through more switches than there are.
        """
        longer = (*trail, arrival)
        if arrival in trail or len(longer) > len(self.topology.switches):
            raise ForwardingLoop([SwitchId(self.lines[line].target) for line in longer], dz)
        return longer

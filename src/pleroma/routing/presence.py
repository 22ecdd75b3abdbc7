"""The part of a network that is there at the moment, while switches may be away and links cut.

A switch that is away stays in the topology, without its links and hosts. Its table is then empty, like that of any
switch with nobody behind it, so nothing else has to know that switches come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.routing.tree import components

Place = tuple[SwitchId, Port]


def with_hosts(wiring: Topology, hosts: Iterable[Host], rooms: Mapping[SwitchId, int]) -> Topology:
    """A network with these hosts, as far as their switches are known and their ports are not those of links.

    `rooms` were found out by refused rules; a table gets the smaller of its limits.
    """
    known = wiring.limits
    lower = {s: min(n, known.get(s, n)) for s, n in rooms.items() if s in wiring.neighbours}
    topology = replace(wiring, hosts=(), limits={**known, **lower})
    taken = {end for link in topology.links for end in link.ends}
    there = [h for h in hosts if h.switch in topology.neighbours and (h.switch, h.port) not in taken]
    return replace(topology, hosts=tuple(there))


@dataclass(frozen=True, slots=True)
class Presence:
    """`absent` are the switches that are away, `down` the ports that carry nothing."""

    absent: Set[SwitchId] = frozenset()
    down: Set[Place] = frozenset()

    def carries(self, link: Link) -> bool:
        (a, b), absent = link.ends, self.absent
        return not (link.a in absent or link.b in absent or a in self.down or b in self.down)

    def has(self, host: Host) -> bool:
        return host.switch not in self.absent and (host.switch, host.port) not in self.down

    def of(self, topology: Topology) -> Topology:
        """The topology without the links and hosts that are away."""
        return replace(
            topology,
            hosts=tuple(filter(self.has, topology.hosts)),
            links=tuple(filter(self.carries, topology.links)),
            datapaths=topology.datapath,
        )

    def unreachable(self, topology: Topology) -> list[HostId]:
        """The hosts that are away, and those that the largest connected part of the network does not reach."""
        homes = {h.switch for h in topology.hosts if self.has(h)}
        largest = max(components(topology, self.carries), key=lambda part: len(part & homes), default=set())
        return [h.name for h in topology.hosts if h.switch not in largest or not self.has(h)]

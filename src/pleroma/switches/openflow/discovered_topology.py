"""Which switches there are and how they are joined: as a file says, or as beacons find out.

A discovered link is never forgotten, only unheard: the port it was at is trusted with other hosts' events, and a host
must not inherit that trust by pulling a cable. It gives way when its port is found joined to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pleroma.routing import Host, Link, SwitchId, Topology
from pleroma.routing.presence import Place

EMPTY_TOPOLOGY = Topology((), (), ())


class DiscoveredTopology:
    """`discovers` lets unknown switches and links join; otherwise the topology stays as it was given."""

    def __init__(self, topology: Topology = EMPTY_TOPOLOGY, *, discovers: bool = False) -> None:
        self.topology = topology
        self.discovers = discovers
        self.borders: dict[Place, str] = {}
        """Ports where another domain's beacons come in, and what they say they are."""
        self._names = {number: name for name, number in topology.datapath.items()}

    def switch(self, datapath: int) -> SwitchId | None:
        """The switch of this number, which joins the network if it may; None if it is a stranger."""
        if datapath not in self._names and self.discovers:
            name = SwitchId(f"s{datapath:x}")
            self._names[datapath] = name
            topology = self.topology
            self.topology = replace(
                topology, switches=(*topology.switches, name), datapaths={**topology.datapath, name: datapath}
            )
        return self._names.get(datapath)

    def joined(self, one: Place, other: Place) -> bool:
        """A beacon went from one place to the other; True if that link was not known."""
        a, b = sorted((one, other))
        link = Link(a[0], a[1], b[0], b[1])
        if not self.discovers or link in self.topology.links:
            return False
        others = [each for each in self.topology.links if not {one, other} & set(each.ends)]
        hosts = [each for each in self.topology.hosts if (each.switch, each.port) not in (one, other)]
        self.topology = replace(self.topology, links=(*others, link), hosts=tuple(hosts))
        return True

    def with_hosts(self, hosts: Iterable[Host], limits: Mapping[SwitchId, int]) -> Topology:
        """The network with these hosts, as far as their switches are known and their ports are not those of links.

        `limits` are those that were found out, which may be less than what the topology says.
        """
        known = self.topology.limits
        lower = {s: min(n, known.get(s, n)) for s, n in limits.items()}
        topology = replace(self.topology, hosts=(), limits={**known, **lower})
        taken = {end for link in topology.links for end in link.ends}
        there = [h for h in hosts if h.switch in topology.neighbours and (h.switch, h.port) not in taken]
        return replace(topology, hosts=tuple(there))

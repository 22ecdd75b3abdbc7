"""Which switches there are and how they are linked: as a file says, or as beacons find out.

A discovered link is never forgotten when it is unheard. Its ports may pass on any event, and a host must not get that
right by being plugged in where a link was. A link goes only when one of its ports is found linked to another port.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pleroma.routing import Host, Link, SwitchId, Topology
from pleroma.routing.presence import Place, with_hosts

MAX_DISCOVERED_SWITCHES = 1024
"""Where any switch may join, no more do: without certificates, anybody who connects can claim any number."""
EMPTY_TOPOLOGY = Topology((), (), ())


class DiscoveredTopology:
    """`discovers` lets unknown switches and links join; otherwise the topology stays as it was given."""

    def __init__(self, topology: Topology = EMPTY_TOPOLOGY, *, discovers: bool = False) -> None:
        self.topology = topology
        self.discovers = discovers
        self.borders: dict[Place, str] = {}
        """Ports at which beacons of another domain arrive, and the name of that domain."""
        self._names = {number: name for name, number in topology.datapath.items()}

    def know(self, topology: Topology) -> None:
        """Begin with what was discovered before."""
        self.topology = topology
        self._names = {number: name for name, number in topology.datapath.items()}

    def switch(self, datapath: int) -> SwitchId | None:
        """The switch of a datapath number. An unknown one joins if the topology `discovers` and has room, else None."""
        if datapath not in self._names and self.discovers and len(self._names) < MAX_DISCOVERED_SWITCHES:
            name = SwitchId(f"s{datapath:x}")
            self._names[datapath] = name
            topology = self.topology
            self.topology = replace(
                topology, switches=(*topology.switches, name), datapaths={**topology.datapath, name: datapath}
            )
        return self._names.get(datapath)

    def switch_of(self, datapath: int) -> SwitchId | None:
        """The switch of a datapath number, if it is known."""
        return self._names.get(datapath)

    def is_linked(self, one: Place, other: Place) -> bool:
        return _link(one, other) in self.topology.links

    def joined(self, one: Place, other: Place) -> bool:
        """Note that a beacon went from one place to the other; True if the link is new."""
        if not self.discovers or self.is_linked(one, other):
            return False
        link = _link(one, other)
        others = [each for each in self.topology.links if not {one, other} & set(each.ends)]
        hosts = [each for each in self.topology.hosts if (each.switch, each.port) not in (one, other)]
        self.topology = replace(self.topology, links=(*others, link), hosts=tuple(hosts))
        return True

    def with_hosts(self, hosts: Iterable[Host], limits: Mapping[SwitchId, int]) -> Topology:
        """The network with these hosts, as far as their switches are known and their ports are not those of links.

        `limits` were found out by refused rules; a table gets the smaller of its limits.
        """
        return with_hosts(self.topology, hosts, limits)


def _link(one: Place, other: Place) -> Link:
    a, b = sorted((one, other))
    return Link(a[0], a[1], b[0], b[1])

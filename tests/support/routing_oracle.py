"""The definition of the flow tables, spelled out slowly, to judge the router by."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from pleroma.index import Dz, DzSet
from pleroma.routing.family import Family
from pleroma.routing.flow import Flow, FlowTable, Output
from pleroma.routing.request import Advertise, Subscribe
from pleroma.routing.topology import HostId, Port, SwitchId, Topology
from pleroma.routing.tree import Tree

Registration = Advertise | Subscribe


def behind(topology: Topology, tree: Tree, switch: SwitchId, port: Port) -> set[HostId]:
    """The hosts that one reaches from `switch` through `port`, on the tree."""
    used = {end: other for link in tree.links for end, other in (link.ends, link.ends[::-1])}
    for host in topology.hosts_of[switch]:
        if host.port == port:
            return {host.name}
    if (switch, port) not in used:
        return set()
    found: set[HostId] = set()
    seen, queue = {switch}, deque([used[switch, port][0]])
    while queue:
        here = queue.popleft()
        seen.add(here)
        found |= {host.name for host in topology.hosts_of[here]}
        queue += [there for (s, _), (there, _) in used.items() if s == here and there not in seen]
    return found


def union(registrations: Iterable[Registration], kind: type[Advertise] | type[Subscribe], hosts: set[HostId]) -> DzSet:
    return DzSet(dz for r in registrations if isinstance(r, kind) and r.host in hosts for dz in r.region)


def tables(
    topology: Topology, tree: Tree, registrations: Iterable[Registration], within: DzSet | None = None
) -> dict[SwitchId, FlowTable]:
    """For each switch: the rules that its ports' demands make."""
    registrations = list(registrations)
    made: dict[SwitchId, FlowTable] = {}
    for switch in topology.switches:
        demands: dict[Port, DzSet] = {}
        sides = {port: behind(topology, tree, switch, port) for port in topology.ports[switch]}
        for port, there in sides.items():
            here = {host for other, hosts in sides.items() if other != port for host in hosts} - there
            demand = union(registrations, Subscribe, there) & union(registrations, Advertise, here)
            demands[port] = demand if within is None else demand & within
        made[switch] = FlowTable(rules(topology, switch, demands))
    return made


def tables_of_families(
    topology: Topology, families: Iterable[Family], registrations: Iterable[Registration]
) -> dict[SwitchId, FlowTable]:
    """The tables of several trees: a rule belongs to one family, whose regions are disjoint."""
    registrations = list(registrations)
    flows: dict[SwitchId, list[Flow]] = {switch: [] for switch in topology.switches}
    for family in families:
        for switch, table in tables(topology, family.tree, registrations, family.region).items():
            flows[switch] += table
    return {switch: FlowTable(found) for switch, found in flows.items()}


def rules(topology: Topology, switch: SwitchId, demands: Mapping[Port, DzSet]) -> Iterator[Flow]:
    """Wherever the ports differ from those of the nearest rule around, unless longer rules take all that it has."""
    address = {host.port: host.address for host in topology.hosts_of[switch]}
    kept: dict[Dz, list[Port]] = {}
    for dz in sorted({dz for demand in demands.values() for dz in demand}, key=lambda dz: dz.length):
        ports = [port for port in sorted(demands) if demands[port].covers(dz)]
        above = next((kept[wider] for k in range(1, dz.length + 1) if (wider := Dz(dz >> k)) in kept), [])
        if ports != above:
            kept[dz] = ports
    for dz, ports in kept.items():
        longer = DzSet(other for other in kept if other != dz and dz.covers(other))
        if not longer.covers(dz):
            yield Flow(dz, tuple(Output(port, address.get(port)) for port in ports))


def walk(
    topology: Topology, tables: Mapping[SwitchId, FlowTable], host: HostId, dz: Dz
) -> list[tuple[HostId, str | None]]:
    """Send one event through the tables by hand: every (host, rewritten address) it reaches, in order of arrival."""
    ends = {end: other for link in topology.links for end, other in (link.ends, link.ends[::-1])}
    hosts = {(h.switch, h.port): h for h in topology.hosts}
    start = topology.host[host]
    queue = deque([(start.switch, start.port, 0)])
    reached: list[tuple[HostId, str | None]] = []
    while queue:
        switch, came, hops = queue.popleft()
        assert hops <= len(topology.switches), "a loop"
        flow = tables[switch].lookup(dz)
        for output in flow.outputs if flow else ():
            if output.port == came:
                continue
            if (switch, output.port) in hosts:
                reached.append((hosts[switch, output.port].name, output.rewrite))
            else:
                there, port = ends[switch, output.port]
                queue.append((there, port, hops + 1))
    return reached

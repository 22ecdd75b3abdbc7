"""Switches, numbered ports, hosts and the links between them.

A topology is a value: cutting a link gives another topology. A topology with a mistake in it cannot be made; the error
names the mistake.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NewType

from pleroma.errors import TopologyError, UnknownName

SwitchId = NewType("SwitchId", str)
HostId = NewType("HostId", str)
Port = NewType("Port", int)

GIGABIT_PER_SECOND = 1e9
MAX_PORT_NUMBER = 65279  # above are OpenFlow's reserved ports
_MAC = re.compile("[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True, slots=True)
class Host:
    """An end system on one port of one switch, reached at `address` by the last switch's rewrite.

    `mac` is the Ethernet address of its card, where it is known; `ethernet` always is one.
    """

    name: HostId
    switch: SwitchId
    port: Port
    address: str
    latency: float = 0.0001
    capacity: float = GIGABIT_PER_SECOND
    mac: str = ""

    @property
    def ethernet(self) -> str:
        """Its card's address, or a locally administered one that is made of its network address."""
        return self.mac or ":".join(f"{byte:02x}" for byte in b"\x02" + _ip(self.address).packed[-5:].rjust(5, b"\0"))


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two switches; latency in seconds, capacity in bits per second."""

    a: SwitchId
    a_port: Port
    b: SwitchId
    b_port: Port
    latency: float = 0.0001
    capacity: float = GIGABIT_PER_SECOND

    @property
    def ends(self) -> tuple[tuple[SwitchId, Port], tuple[SwitchId, Port]]:
        return (self.a, self.a_port), (self.b, self.b_port)

    def __str__(self) -> str:
        return f"{self.a} {self.a_port} - {self.b} {self.b_port}"


@dataclass(frozen=True)
class Topology:
    """`limits` holds how many rules a switch may have, for those that have a limit.

    `datapaths` holds the number by which a switch presents itself to a controller, for those that were given one; the
    others are numbered from 1 on, as they are listed.
    """

    switches: tuple[SwitchId, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    limits: Mapping[SwitchId, int] = field(default_factory=dict)
    datapaths: Mapping[SwitchId, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def host(self) -> Mapping[HostId, Host]:
        return {h.name: h for h in self.hosts}

    def find_host(self, name: str) -> Host:
        try:
            return self.host[HostId(name)]
        except KeyError:
            raise UnknownName("host", name, self.host) from None

    @cached_property
    def ports(self) -> Mapping[SwitchId, tuple[Port, ...]]:
        """The ports in use on each switch, sorted."""
        used: dict[SwitchId, list[Port]] = {s: [] for s in self.switches}
        for switch, port in _attachments(self):
            used[switch].append(port)
        return {s: tuple(sorted(ports)) for s, ports in used.items()}

    @cached_property
    def neighbours(self) -> Mapping[SwitchId, tuple[tuple[Port, SwitchId, Port, Link], ...]]:
        """For each switch: (own port, other switch, other port, link), by own port."""
        found: dict[SwitchId, list[tuple[Port, SwitchId, Port, Link]]] = {s: [] for s in self.switches}
        for link in self.links:
            found[link.a].append((link.a_port, link.b, link.b_port, link))
            found[link.b].append((link.b_port, link.a, link.a_port, link))
        return {s: tuple(sorted(each, key=lambda n: n[0])) for s, each in found.items()}

    @cached_property
    def hosts_of(self) -> Mapping[SwitchId, tuple[Host, ...]]:
        found: dict[SwitchId, list[Host]] = {s: [] for s in self.switches}
        for host in self.hosts:
            found[host.switch].append(host)
        return {s: tuple(each) for s, each in found.items()}

    @cached_property
    def datapath(self) -> Mapping[SwitchId, int]:
        return {s: self.datapaths.get(s, number) for number, s in enumerate(self.switches, 1)}

    def without(self, links: Iterable[Link] = (), switches: Iterable[SwitchId] = ()) -> Topology:
        """What is left when these fail; the hosts of a failed switch are gone with it."""
        dead, cut = set(switches), set(links)
        return replace(
            self,
            switches=tuple(s for s in self.switches if s not in dead),
            hosts=tuple(h for h in self.hosts if h.switch not in dead),
            links=tuple(x for x in self.links if x not in cut and x.a not in dead and x.b not in dead),
            limits={s: n for s, n in self.limits.items() if s not in dead},
            datapaths={s: n for s, n in self.datapath.items() if s not in dead},
        )

    def with_limit(self, limit: int | None) -> Topology:
        """The same network with one table size for all switches (None: no limit)."""
        return replace(self, limits={} if limit is None else dict.fromkeys(self.switches, limit))


def _attachments(topology: Topology) -> Iterable[tuple[SwitchId, Port]]:
    for link in topology.links:
        yield from link.ends
    for host in topology.hosts:
        yield host.switch, host.port


def _check(topology: Topology) -> None:
    known = set(topology.switches)
    if len(known) != len(topology.switches):
        raise TopologyError("is listed twice", field=_twice(topology.switches))
    names = [h.name for h in topology.hosts]
    if len(set(names)) != len(names):
        raise TopologyError("is listed twice", field=_twice(names))
    addresses = [_address(h) for h in topology.hosts]
    if len(set(addresses)) != len(addresses):
        raise TopologyError("the address is used by two hosts", field=_twice(addresses))
    for host in topology.hosts:
        if host.switch not in known:
            raise UnknownName("switch", host.switch, topology.switches, field=host.name)
        if SwitchId(host.name) in known:
            raise TopologyError("is both a host and a switch", field=host.name)
        _check_line(host.name, host.latency, host.capacity)
        if host.mac and not _MAC.fullmatch(host.mac):
            raise TopologyError(f"{host.mac!r} is not an Ethernet address", field=host.name, value=host.mac)
    for link in topology.links:
        for switch, _ in link.ends:
            if switch not in known:
                raise UnknownName("switch", switch, topology.switches, field=f"link {link.a}-{link.b}")
        if link.a == link.b:
            raise TopologyError("a link joins two different switches", field=f"link {link.a}-{link.b}")
        _check_line(f"link {link.a}-{link.b}", link.latency, link.capacity)
    seen: set[tuple[SwitchId, Port]] = set()
    for switch, port in _attachments(topology):
        if type(port) is not int or not 1 <= port <= MAX_PORT_NUMBER:
            raise TopologyError(f"port {port!r} is not between 1 and {MAX_PORT_NUMBER}", field=switch, value=port)
        if (switch, port) in seen:
            raise TopologyError(f"port {port} is used twice", field=switch, value=port)
        seen.add((switch, port))
    for switch, limit in topology.limits.items():
        if switch not in known:
            raise UnknownName("switch", switch, topology.switches, field="limits")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise TopologyError(f"a table has room for at least one rule, not {limit!r}", field=switch, value=limit)
    _check_datapaths(topology)


def _check_datapaths(topology: Topology) -> None:
    for switch, number in topology.datapaths.items():
        if switch not in topology.switches:
            raise UnknownName("switch", switch, topology.switches, field="datapaths")
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 1 << 64:
            raise TopologyError(f"{number!r} is not a datapath number", field=switch, value=number)
    numbers = topology.datapath
    if len(set(numbers.values())) != len(numbers):
        twice = Counter(numbers.values()).most_common(1)[0][0]
        both = " and ".join(s for s, number in numbers.items() if number == twice)
        raise TopologyError(f"datapath {twice} belongs to {both}", field="datapaths", value=twice)


def _check_line(name: str, latency: float, capacity: float) -> None:
    if not (_is_number(latency) and math.isfinite(latency) and latency >= 0):
        raise TopologyError(f"latency {latency!r} is not a time", field=name, value=latency)
    if not (_is_number(capacity) and capacity > 0):
        raise TopologyError(f"capacity {capacity!r} is not positive", field=name, value=capacity)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _address(host: Host) -> str:
    """The address in its canonical form; it must not be one of the multicast addresses that events have."""
    try:
        address = _ip(host.address) if isinstance(host.address, str) else None
    except ValueError:
        address = None
    if address is None:
        raise TopologyError(f"{host.address!r} is not an address", field=host.name, value=host.address)
    if address.is_multicast:
        raise TopologyError(f"{host.address} is a multicast address", field=host.name, value=host.address)
    return str(address)


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text)


def _twice(names: Iterable[str]) -> str:
    return Counter(names).most_common(1)[0][0]

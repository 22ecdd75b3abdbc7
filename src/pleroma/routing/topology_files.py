"""Networks in files: our own JSON, and GraphML as the Internet Topology Zoo has it.

    {"switches": ["R1", "R2"],
     "hosts": [{"name": "h1", "switch": "R1", "port": 1, "address": "fd00::1", "latency": 0.0001, "capacity": 1e9}],
     "links": [{"a": "R1", "a_port": 2, "b": "R2", "b_port": 1, "latency": 0.0001, "capacity": 1e9}],
     "limits": {"R1": 1000},
     "datapaths": {"R1": 1}}

Latency is in seconds, capacity in bits per second; limits are the rules a switch has room for; datapaths are the
numbers by which OpenFlow switches present themselves, by default their places in the list. What may be left out: hosts,
links, limits, datapaths, latencies and capacities; a port, which is then the first free one of its switch; an address,
which is then the first free one from fd00::1 on. Hosts take free ports before links do, each in the order listed. A
host may have a "mac", the Ethernet address of its card, which is needed where the host is a real one.

In GraphML nodes are switches, except those with type="host". A node is called by its label, or else by its id. An edge
may have a latency or delay in seconds, and a capacity or LinkSpeedRaw in bits per second.
"""

from __future__ import annotations

import io
import ipaddress
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pleroma.errors import TopologyError, UnknownName, shown
from pleroma.routing.topology import MAX_PORT_NUMBER, Host, HostId, Link, Port, SwitchId, Topology
from pleroma.routing.tree import components

MAX_SWITCHES = 10_000
MAX_HOSTS = 100_000
FREE_PORT = Port(0)  # a port that `wire` is to choose
FREE_ADDRESS = ""

_FIRST_IPV4 = ipaddress.IPv4Address("10.0.0.1")

T = TypeVar("T")

_LATENCY = ("latency", "delay")
_CAPACITY = ("capacity", "LinkSpeedRaw")


def load(path: str | Path, hosts_per_switch: int = 0) -> Topology:
    """A connected network. Each switch for which the file has no host gets `hosts_per_switch`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".json", ".graphml"):
        raise TopologyError("a topology file ends in .json or .graphml", field=str(path), value=suffix)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: no path at all, for it holds a NUL or half a character
        raise TopologyError(f"cannot read the topology: {_reason(error)}", field=str(path)) from None
    if suffix == ".graphml":
        return _from_graphml(content, str(path), hosts_per_switch)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"is not valid JSON: {error}", field=str(path)) from None
    return from_json(data, hosts_per_switch)


def save(topology: Topology, path: str | Path) -> None:
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise TopologyError("a topology is saved as .json", field=str(path), value=path.suffix)
    try:
        path.write_text(json.dumps(to_json(topology), indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise TopologyError(f"cannot write the topology: {_reason(error)}", field=str(path)) from None


def to_json(topology: Topology) -> dict[str, Any]:
    return {
        "switches": list(topology.switches),
        "hosts": [_given(host) for host in topology.hosts],
        "links": [asdict(link) for link in topology.links],
        "limits": dict(topology.limits),
    } | ({"datapaths": dict(topology.datapaths)} if topology.datapaths else {})


def _given(host: Host) -> dict[str, Any]:
    """A host without an empty mac: logs identify their network by this text, and old logs know no mac."""
    return {name: value for name, value in asdict(host).items() if name != "mac" or value}


def from_json(data: Any, hosts_per_switch: int = 0, *, whole: bool = True) -> Topology:
    """The network that JSON describes; with `whole`, an error if it is not connected."""
    _check_fields(data, "topology", ("switches", "hosts", "links", "limits", "datapaths"))
    switches, hosts, links = (_list(data, name) for name in ("switches", "hosts", "links"))
    limits, datapaths = data.get("limits", {}), data.get("datapaths", {})
    for field, what, value in (("limits", "rules", limits), ("datapaths", "number", datapaths)):
        if not isinstance(value, Mapping):
            raise TopologyError(f"is an object of switch to {what}, not {shown(value)}", field=field, value=value)
    return wire(
        [SwitchId(_name(each, f"switches[{i}]")) for i, each in enumerate(switches)],
        [_host(each, f"hosts[{i}]") for i, each in enumerate(hosts)],
        [_link(each, f"links[{i}]") for i, each in enumerate(links)],
        limits=limits,
        datapaths=datapaths,
        hosts_per_switch=hosts_per_switch,
        whole=whole,
    )


def wire(
    switches: Sequence[SwitchId],
    hosts: Sequence[Host],
    links: Sequence[Link],
    *,
    limits: Mapping[SwitchId, int] | None = None,
    datapaths: Mapping[SwitchId, int] | None = None,
    hosts_per_switch: int = 0,
    whole: bool = True,
) -> Topology:
    """Choose the free ports and addresses, hosts first; with `whole`, check that the network is connected."""
    check_size("switches", len(switches), int(whole), MAX_SWITCHES)
    check_size("hosts per switch", hosts_per_switch, 0, MAX_HOSTS)
    served = {host.switch for host in hosts}
    unserved = [switch for switch in switches if switch not in served]
    check_size("hosts", len(hosts) + hosts_per_switch * len(unserved), 0, MAX_HOSTS)
    names = _unused(map("h{}".format, count(1)), {*switches, *(host.name for host in hosts)})
    more = [Host(HostId(next(names)), s, FREE_PORT, FREE_ADDRESS) for s in unserved for _ in range(hosts_per_switch)]
    topology = Topology(tuple(switches), *_numbered((*hosts, *more), links), limits or {}, datapaths or {})
    if whole:
        _check_connected(topology)
    return topology


def with_ipv4(topology: Topology) -> Topology:
    """The same network, where hosts without an IPv4 address have the first free ones from 10.0.0.1 on.

    Events that travel under IPv4 are rewritten to the address of a host, so it has to be one of IPv4.
    """
    used = {_plain(host.address) for host in topology.hosts}
    free = _unused((str(_FIRST_IPV4 + number) for number in count()), used)
    hosts = (replace(host, address=next(free)) if ":" in host.address else host for host in topology.hosts)
    return replace(topology, hosts=tuple(hosts))


def check_size(field: str, size: int, smallest: int, largest: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not smallest <= size <= largest:
        reason = f"must be a whole number from {smallest:,} to {largest:,}, not {shown(size)}"
        raise TopologyError(reason, field=field, value=size)


def _numbered(hosts: Sequence[Host], links: Sequence[Link]) -> tuple[tuple[Host, ...], tuple[Link, ...]]:
    taken: dict[SwitchId, set[Port]] = {}
    for switch, port in [*((h.switch, h.port) for h in hosts), *(end for link in links for end in link.ends)]:
        taken.setdefault(switch, set()).add(port)
    free = {switch: _unused(map(Port, count(1)), ports) for switch, ports in taken.items()}
    addresses = _unused(map(_address, count(1)), {_plain(host.address) for host in hosts if host.address})
    return (
        tuple(
            replace(host, port=host.port or next(free[host.switch]), address=host.address or next(addresses))
            for host in hosts
        ),
        tuple(
            replace(link, a_port=link.a_port or next(free[link.a]), b_port=link.b_port or next(free[link.b]))
            for link in links
        ),
    )


def _unused(candidates: Iterable[T], used: Set[T]) -> Iterator[T]:
    return (each for each in candidates if each not in used)


def _address(number: int) -> str:
    return f"fd00::{number:x}" if number < 1 << 16 else f"fd00::{number >> 16:x}:{number & 0xFFFF:x}"


def _plain(address: str) -> str:
    """One address may be written in several ways."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def _check_connected(topology: Topology) -> None:
    largest = max(components(topology), key=len)
    reason = f"cannot be reached from {next(switch for switch in topology.switches if switch in largest)}"
    for host in topology.hosts:
        if host.switch not in largest:
            raise TopologyError(reason, field=host.name)
    for switch in topology.switches:
        if switch not in largest:
            raise TopologyError(reason, field=switch)


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error


def _host(data: Any, where: str) -> Host:
    _check_fields(data, where, ("name", "switch", "port", "address", "latency", "capacity", "mac"))
    return Host(
        HostId(_name(data.get("name"), f"{where}.name")),
        SwitchId(_name(data.get("switch"), f"{where}.switch")),
        _port(data, "port", where),
        _name(data["address"], f"{where}.address") if "address" in data else FREE_ADDRESS,
        mac=_name(data["mac"], f"{where}.mac").lower() if "mac" in data else "",
        **_line(data, where),
    )


def _link(data: Any, where: str) -> Link:
    _check_fields(data, where, ("a", "a_port", "b", "b_port", "latency", "capacity"))
    return Link(
        SwitchId(_name(data.get("a"), f"{where}.a")),
        _port(data, "a_port", where),
        SwitchId(_name(data.get("b"), f"{where}.b")),
        _port(data, "b_port", where),
        **_line(data, where),
    )


def _check_fields(data: Any, where: str, known: Iterable[str]) -> None:
    if not isinstance(data, Mapping):
        raise TopologyError(f"is an object with {', '.join(known)}, not {shown(data)}", field=where, value=data)
    for name in data:
        if name not in known:
            raise UnknownName("field", str(name), known, field=where)


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise TopologyError(f"is a list, not {shown(value)}", field=name, value=value)
    return value


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise TopologyError(f"must be a text, not {shown(value)}", field=where, value=value)
    return value


def _port(data: Mapping[str, Any], name: str, where: str) -> Port:
    if name not in data:
        return FREE_PORT
    check_size(f"{where}.{name}", data[name], 1, MAX_PORT_NUMBER)
    return Port(data[name])


def _line(data: Mapping[str, Any], where: str, *, as_text: bool = False) -> dict[str, float]:
    """Latency and capacity, as far as they are given."""
    found: dict[str, float] = {}
    for field, names in (("latency", _LATENCY), ("capacity", _CAPACITY)):
        given = next((name for name in names if name in data), None)
        if given is None:
            continue
        value = data[given]
        try:
            if isinstance(value, bool) or (isinstance(value, str) and not as_text):
                raise TypeError
            found[field] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise TopologyError(f"{given} {shown(value)} is not a number", field=where, value=value) from None
    return found


def _from_graphml(content: bytes, path: str, hosts_per_switch: int) -> Topology:
    import networkx  # slow to import, and only this needs it

    try:
        graph = networkx.read_graphml(io.BytesIO(content))
    except Exception as error:  # its reader fails in many ways on what it does not expect
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise TopologyError(f"is not valid GraphML: {reason}", field=path) from None
    called = _called(graph.nodes(data="label"))
    edges = [
        (called[a], called[b], _line(data, f"link {called[a]}-{called[b]}", as_text=True))
        for a, b, data in graph.edges(data=True)
    ]
    if graph.is_directed():  # a cable may have an edge for each direction
        ends = [(a, b) for a, b, _ in edges]
        first = {frozenset(pair): pair for pair in reversed(ends)}
        edges = [edge for edge, pair in zip(edges, ends, strict=True) if first[frozenset(pair)] == pair]
    addresses = {
        called[node]: str(data.get("address", FREE_ADDRESS))
        for node, data in graph.nodes(data=True)
        if data.get("type") == "host"
    }
    return wire(
        [SwitchId(name) for name in called.values() if name not in addresses],
        _hosts(addresses, edges),
        [
            Link(SwitchId(a), FREE_PORT, SwitchId(b), FREE_PORT, **line)
            for a, b, line in edges
            if a not in addresses and b not in addresses
        ],
        hosts_per_switch=hosts_per_switch,
    )


def _hosts(addresses: Mapping[str, str], edges: Iterable[tuple[str, str, dict[str, float]]]) -> list[Host]:
    lines: dict[str, list[tuple[str, dict[str, float]]]] = {name: [] for name in addresses}
    for a, b, line in edges:
        if a in lines:
            lines[a].append((b, line))
        if b in lines:
            lines[b].append((a, line))
    hosts = []
    for name, found in lines.items():
        if len(found) != 1:
            raise TopologyError(f"a host has one link, not {len(found)}", field=name)
        [(switch, line)] = found
        if switch in addresses:
            raise TopologyError(f"a host is linked to a switch, not to the host {switch}", field=name)
        hosts.append(Host(HostId(name), SwitchId(switch), FREE_PORT, addresses[name], mac="", **line))
    return hosts


def _called(labels: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Each node's label or else id; where several would be called the same, the id is added."""
    names = {node: str(label or "").strip() or node for node, label in labels}
    shared = Counter(names.values())
    distinct = {node: name if shared[name] == 1 else f"{name}-{node}" for node, name in names.items()}
    return distinct if len(set(distinct.values())) == len(names) else {node: node for node in names}

"""The path of one event through the tables as they are now.

Tables, cables and forwarding are those of the embedded network, but the whole path is computed at once and is a value.
The live network follows it for every packet until a table changes, and a trace explains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pleroma.errors import ForwardingLoop
from pleroma.index.dz import Dz
from pleroma.routing.flow import Flow
from pleroma.routing.topology import Host, SwitchId
from pleroma.switches.simulated.cables import Cables, Departure, Trail
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork

Lookup = Callable[[int, Dz], Flow | None]
"""The rule that an event follows which came by the line of this number."""


@dataclass(frozen=True, slots=True)
class EventHop:
    """A packet at a switch: the line it came by, the rule it matched (None: none), and where it left."""

    arrival: int
    flow: Flow | None
    departures: tuple[Departure, ...]


@dataclass(frozen=True, slots=True)
class EventPath:
    """The hops of all copies of an event, nearest switch first. A host is in `receivers` once for each copy it gets."""

    hops: tuple[EventHop, ...]
    receivers: tuple[Host, ...]
    looped: bool = False


def find_path(cables: Cables, lookup: Lookup, host: int, dz: Dz | None) -> EventPath:
    """The path of a packet from the host of this number. A packet without a dz is no event: it matches no rule.

    Where the tables lead in circles, each line is taken once, so that every receiver is found and the path ends.
    """
    try:
        hops, looped = _follow(cables, lookup, host, dz, each_line_once=False), False
    except ForwardingLoop:
        hops, looped = _follow(cables, lookup, host, dz, each_line_once=True), True
    departures = [leaving for hop in hops for leaving in hop.departures]
    return EventPath(hops, tuple(x for leaving in departures if (x := _taker(cables, leaving)) is not None), looped)


def _follow(cables: Cables, lookup: Lookup, host: int, dz: Dz | None, each_line_once: bool) -> tuple[EventHop, ...]:
    hops: list[EventHop] = []
    waiting: list[tuple[int, Dz | None, Trail]] = [(cables.uplink(host), dz, ())]
    taken: set[int] = set()
    for arrival, wanted, path in waiting:  # the list grows meanwhile
        if wanted is None:  # once rewritten, it is no event that a rule could match
            hops.append(EventHop(arrival, None, ()))
            continue
        if not each_line_once:
            path = cables.further(path, arrival, wanted)
        flow = lookup(arrival, wanted)
        departures = () if flow is None else tuple(cables.departures(arrival, flow))
        if each_line_once:
            departures = tuple(leaving for leaving in departures if leaving.line not in taken)
            taken.update(leaving.line for leaving in departures if leaving.line is not None)
        hops.append(EventHop(arrival, flow, departures))
        waiting += [
            (leaving.line, wanted if leaving.rewrite is None else None, path)
            for leaving in departures
            if leaving.line is not None and cables.host_behind(leaving.line) is None
        ]
    return tuple(hops)


def _taker(cables: Cables, leaving: Departure) -> Host | None:
    """The host behind a departure, if the packet has that host's address."""
    host = None if leaving.line is None else cables.host_behind(leaving.line)
    return host if host is not None and leaving.rewrite == host.address else None


def lookup_in(network: EmbeddedNetwork) -> Lookup:
    """The rules of a network as they are now."""
    lines, tables = network.cables.lines, network.tables
    return lambda arrival, dz: tables[SwitchId(lines[arrival].target)].lookup(dz)


def count_along(network: EmbeddedNetwork, path: EventPath, packets: int, size: int) -> None:
    """Add packets that took this path, of `size` bytes in all, to the counters of the network."""
    _carry(network, path.hops[0].arrival, packets, size)
    for hop in path.hops:
        switch = SwitchId(network.cables.lines[hop.arrival].target)
        counters = network.counters[switch]
        counters.lookups += packets
        if hop.flow is None:
            counters.misses += packets
            continue
        network.tables[switch].count(hop.flow, packets, size)
        for leaving in hop.departures:
            if leaving.line is None:
                counters.unconnected += packets
                continue
            _carry(network, leaving.line, packets, size)
            host = network.cables.host_behind(leaving.line)
            if host is not None and leaving.rewrite != host.address:
                network.misaddressed[host.name] += packets


def _carry(network: EmbeddedNetwork, line: int, packets: int, size: int) -> None:
    traffic = network.line_counters[line]
    traffic.sent += packets
    traffic.sent_bytes += size
    traffic.received += packets
    traffic.received_bytes += size

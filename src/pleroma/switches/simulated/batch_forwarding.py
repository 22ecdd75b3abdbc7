"""Forwards whole batches of events through tables that do not change, without a loop over events.

The events that arrive at a switch by one line are looked up together, and those that leave by each port go on to the
next switch. Where the tables cannot lead back, as on a tree, lines are taken in an order in which each is handled once;
where they can, all events advance hop by hop, and an event that exceeds the hop limit is in a loop.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from pleroma.arrays.types import Ints
from pleroma.errors import ForwardingLoop, RoutingError, UnknownName
from pleroma.index.codes import Codes
from pleroma.routing.flow import FlowTable
from pleroma.routing.topology import SwitchId, Topology
from pleroma.switches.simulated.cables import Cables
from pleroma.switches.simulated.compiled_table import MISS, CompiledTable, words_of
from pleroma.switches.simulated.forwarding import Forwarding
from pleroma.switches.simulated.in_flight import InFlight
from pleroma.switches.simulated.packet import EVENT_SIZE
from pleroma.switches.simulated.routes import NOWHERE, Routes


def forward(
    topology: Topology,
    tables: Mapping[SwitchId, FlowTable | CompiledTable],
    codes: Codes,
    origin: ArrayLike,
    sizes: ArrayLike | None = None,
    *,
    count_rules: bool = False,
) -> Forwarding:
    """Send every event from the host whose number is in `origin`; `sizes` in bytes, one for all or one for each.

    A switch without a table drops everything. Raises ForwardingLoop if an event would go round for ever.
    """
    hosts = np.asarray(origin, np.int64)
    if hosts.shape != (len(codes),):
        raise RoutingError(f"{len(codes)} events need as many origins, not shape {hosts.shape}", field="origin")
    wrong = np.flatnonzero((hosts < 0) | (hosts >= len(topology.hosts)))
    if len(wrong):
        value = int(hosts[wrong[0]])
        raise RoutingError(f"{value} in row {wrong[0]} is the number of no host", field="origin", value=value)
    bytes_each = np.asarray(EVENT_SIZE if sizes is None else sizes, np.int64)
    if bytes_each.shape not in ((), (len(codes),)):
        raise RoutingError(f"{len(codes)} events need as many sizes, not shape {bytes_each.shape}", field="sizes")
    routes = Routes(Cables(topology), _compile(topology, tables, codes.bits))
    return _Batch(routes, codes, hosts, bytes_each, count_rules).run()


def _compile(
    topology: Topology, tables: Mapping[SwitchId, FlowTable | CompiledTable], bits: int
) -> list[CompiledTable]:
    for switch in tables:
        if switch not in topology.ports:
            raise UnknownName("switch", switch, topology.switches, field="tables")
    made = []
    for switch in topology.switches:
        table = tables.get(switch, ())
        if not isinstance(table, CompiledTable):
            table = CompiledTable.of(table, bits)
        elif table.bits != bits:
            raise RoutingError(f"the table is for {table.bits} bits, the events have {bits}", field=switch)
        made.append(table)
    return made


class _Batch:
    """One run. Inside, an event is known by its rank in the order of codes, which keeps searches close together."""

    def __init__(self, routes: Routes, codes: Codes, hosts: Ints, sizes: Ints, count_rules: bool) -> None:
        topology = routes.cables.topology
        words = words_of(codes)
        self.routes = routes
        self.topology = topology
        self.codes = codes
        self.order = np.lexsort(words[::-1]).astype(np.int32)
        self.words = tuple(word[self.order] for word in words)
        self.hosts = hosts[self.order]
        self.sizes = sizes[self.order] if sizes.ndim else sizes
        self.events, self.bytes = np.zeros((2, len(routes.cables.lines)), np.int64)
        self.lookups, self.misses, self.unconnected = np.zeros((3, len(topology.switches)), np.int64)
        self.misaddressed = np.zeros(len(topology.hosts), np.int64)
        self.received: list[list[InFlight]] = [[] for _ in topology.hosts]
        self.hits = [np.zeros(len(table.flows), np.int64) for table in routes.tables] if count_rules else None

    def run(self) -> Forwarding:
        rank = self.routes.order()
        waiting: dict[tuple[int, int, int], list[InFlight]] = {}
        due: list[tuple[int, int, int]] = []

        def wait(hop: int, line: int, load: InFlight) -> None:
            key = (hop, -1 if rank is None else rank.get(line, -1), line)  # hosts' lines have no rank and come first
            if key not in waiting:
                waiting[key] = []
                heapq.heappush(due, key)
            waiting[key].append(load)

        for line, load in self._published():
            self._count(line, load)
            wait(1, line, load)
        furthest = 1
        while due:
            key = heapq.heappop(due)
            hop, _, line = key
            load = InFlight.merge(waiting.pop(key))
            if hop > furthest:
                furthest = hop
                self._check_for_loop(load, hop)
            for onward, moved in self._switch(line, load):
                wait(hop + 1 if rank is None else hop, onward, moved)
        return self._result()

    def _published(self) -> list[tuple[int, InFlight]]:
        """For each host that publishes, its uplink and its events."""
        by_host = np.argsort(self.hosts, kind="stable").astype(np.int32)
        bounds = np.searchsorted(self.hosts[by_host], np.arange(len(self.received) + 1)).tolist()
        spans = enumerate(pairwise(bounds))
        return [(self.routes.cables.uplink(host), InFlight(by_host[a:b])) for host, (a, b) in spans if a < b]

    def _switch(self, arrival: int, load: InFlight) -> list[tuple[int, InFlight]]:
        """Look up the events that arrived by a line; returns those that go on to other switches, by line."""
        switch = self.routes.target[arrival]
        table = self.routes.tables[switch]
        interval = table.find(*(word[load.rows] for word in self.words))
        group = table.group[interval]
        self.lookups[switch] += load.copies
        self.misses[switch] += load.where(group == MISS).copies
        if self.hits is not None:
            rule = table.rule[interval]
            np.add.at(self.hits[switch], rule[rule >= 0], 1 if load.times is None else load.times[rule >= 0])
        onward = []
        for leaving in self.routes.exits[switch]:
            if leaving.line == arrival ^ 1:
                continue
            sent = load.where(leaving.good[group])
            if leaving.line == NOWHERE:
                self.unconnected[switch] += sent.copies
                continue
            target = self.routes.target[leaving.line]
            if leaving.astray is not None:
                self._astray(leaving.line, target, load.where(leaving.astray[group]))
            if len(sent.rows):
                self._count(leaving.line, sent)
                if target >= 0:
                    onward.append((leaving.line, sent))
                else:
                    self.received[-1 - target].append(sent)
        return onward

    def _astray(self, line: int, target: int, load: InFlight) -> None:
        """Count events sent with the address of a wrong host: no rule matches them, and no host takes them."""
        self._count(line, load)
        if target >= 0:
            self.lookups[target] += load.copies
            self.misses[target] += load.copies
        else:
            self.misaddressed[-1 - target] += load.copies

    def _count(self, line: int, load: InFlight) -> None:
        self.events[line] += load.copies
        self.bytes[line] += load.bytes(self.sizes)

    def _check_for_loop(self, load: InFlight, hop: int) -> None:
        """Check one event at every hop, so that most loops are found early, and all at the hop limit."""
        row = load.most_copied
        path = self.routes.loop(int(self.hosts[row]), [word[row : row + 1] for word in self.words])
        if path is not None:
            raise ForwardingLoop(path, self.codes.dz(int(self.order[row])))
        if hop > len(self.topology.switches):
            raise AssertionError(f"an event came {hop} switches far without being in a loop")

    def _result(self) -> Forwarding:
        delivered, duplicates = [], []
        for parts in self.received:
            load = InFlight.merge(parts) if parts else InFlight(np.empty(0, np.int32))
            delivered.append(np.sort(self.order[load.rows]))
            duplicates.append(load.copies - len(load.rows))
        return Forwarding(
            cables=self.routes.cables,
            delivered=tuple(delivered),
            duplicates=np.array(duplicates, np.int64),
            misaddressed=self.misaddressed,
            events=self.events,
            bytes=self.bytes,
            lookups=self.lookups,
            misses=self.misses,
            unconnected=self.unconnected,
            hits=None if self.hits is None else dict(zip(self.topology.switches, self.hits, strict=True)),
        )

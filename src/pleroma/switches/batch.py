"""Whole batches of events through tables that stand still, without a loop over events.

What waits at a switch for one port of arrival is looked up together, and the rows that leave by each port move on to
the next switch. Where the tables cannot lead back, as on a tree, lines are taken in an order in which each is done
once; where they could, all events advance hop by hop, and one that outlives the hop limit is in a loop.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pleroma.errors import RoutingError, UnknownName
from pleroma.index.codes import Codes
from pleroma.index.kernels import Ints
from pleroma.routing.flow import FlowTable
from pleroma.routing.topology import SwitchId, Topology
from pleroma.switches.compiled import MISS, CompiledTable, words_of
from pleroma.switches.forwarding import Forwarding, Rows
from pleroma.switches.loop import ForwardingLoop
from pleroma.switches.packet import EVENT_SIZE
from pleroma.switches.wiring import Wiring

Flags = NDArray[np.bool_]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class _Exit:
    """A port that some rule sends to and the line behind it.

    By group: whether it sends there under the address that belongs there, or under a wrong one (None: none does).
    """

    line: int
    good: Flags
    astray: Flags | None


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

    A switch without a table drops everything. Raises ForwardingLoop where an event would never come to an end.
    """
    wiring = Wiring(topology)
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
    return _Batch(wiring, _compile(topology, tables, codes.bits), codes, hosts, bytes_each, count_rules).run()


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
    """One run. Inside, events go by their rank in the order of their codes, which keeps searches close together."""

    def __init__(
        self,
        wiring: Wiring,
        tables: Sequence[CompiledTable],
        codes: Codes,
        hosts: Ints,
        sizes: Ints,
        count_rules: bool,
    ) -> None:
        topology = wiring.topology
        words = words_of(codes)
        self.order = np.lexsort(words[::-1]).astype(np.int32)
        self.words = tuple(word[self.order] for word in words)
        self.codes = codes
        self.hosts = hosts[self.order]
        self.sizes = sizes[self.order] if sizes.ndim else sizes
        self.wiring = wiring
        self.tables = tables
        number = {switch: n for n, switch in enumerate(topology.switches)}
        # where each line leads: the number of a switch, or of a host counted down from -1
        self.target = [
            number[SwitchId(line.target)] if line.target_port is not None else -1 - (n >> 1) + len(topology.links)
            for n, line in enumerate(wiring.lines)
        ]
        self.exits = [self._exits(switch, table) for switch, table in zip(topology.switches, tables, strict=True)]
        # of those, the lines on which events go on to another switch
        self.onward = [
            [(x.line, x.good) for x in exits if x.line != NOWHERE and self.target[x.line] >= 0 and x.good.any()]
            for exits in self.exits
        ]
        self.events = np.zeros(len(wiring.lines), np.int64)
        self.bytes = np.zeros(len(wiring.lines), np.int64)
        self.lookups, self.misses, self.unconnected = np.zeros((3, len(topology.switches)), np.int64)
        self.misaddressed = np.zeros(len(topology.hosts), np.int64)
        self.received: list[list[Rows]] = [[] for _ in topology.hosts]
        self.hits = [np.zeros(len(table.flows), np.int64) for table in tables] if count_rules else None

    def run(self) -> Forwarding:
        topology = self.wiring.topology
        rank = self._ranks()
        waiting: dict[tuple[int, int, int], list[Rows]] = {}
        due: list[tuple[int, int, int]] = []

        def wait(hop: int, line: int, rows: Rows) -> None:
            key = (hop, -1 if rank is None else rank.get(line, -1), line)  # hosts' lines have no rank and come first
            if key not in waiting:
                waiting[key] = []
                heapq.heappush(due, key)
            waiting[key].append(rows)

        for line, rows in self._published():
            self._count(line, rows)
            wait(1, line, rows)
        while due:
            key = heapq.heappop(due)
            hop, _, line = key
            parts = waiting.pop(key)
            rows = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts), kind="stable")
            if hop > len(topology.switches):
                raise self._loop(int(rows[0]))
            for onward, moved in self._switch(line, rows):
                wait(hop + 1 if rank is None else hop, onward, moved)
        return self._result()

    def _published(self) -> list[tuple[int, Rows]]:
        """For each host that publishes, its uplink and its events."""
        by_host = np.argsort(self.hosts, kind="stable").astype(np.int32)
        bounds = np.searchsorted(self.hosts[by_host], np.arange(len(self.received) + 1)).tolist()
        spans = enumerate(pairwise(bounds))
        return [(self.wiring.uplink(host), by_host[a:b]) for host, (a, b) in spans if a < b]

    def _switch(self, arrival: int, rows: Rows) -> list[tuple[int, Rows]]:
        """Look up what came in by a line; returns what goes on to other switches."""
        switch = self.target[arrival]
        table = self.tables[switch]
        interval = table.find(*(word[rows] for word in self.words))
        group = table.group[interval]
        self.lookups[switch] += len(rows)
        self.misses[switch] += np.count_nonzero(group == MISS)
        if self.hits is not None:
            rule = table.rule[interval]
            self.hits[switch] += np.bincount(rule[rule >= 0], minlength=len(table.flows))
        onward = []
        for leaving in self.exits[switch]:
            if leaving.line == arrival ^ 1:
                continue
            sent = rows[leaving.good[group]]
            if leaving.line == NOWHERE:
                self.unconnected[switch] += len(sent)
                continue
            target = self.target[leaving.line]
            if leaving.astray is not None:
                lost = rows[leaving.astray[group]]
                self._count(leaving.line, lost)
                self._astray(target, len(lost))
            if len(sent):
                self._count(leaving.line, sent)
                if target >= 0:
                    onward.append((leaving.line, sent))
                else:
                    self.received[-1 - target].append(sent)
        return onward

    def _astray(self, target: int, count: int) -> None:
        """Under a host's address no switch knows a packet, and no other host takes it."""
        if target >= 0:
            self.lookups[target] += count
            self.misses[target] += count
        else:
            self.misaddressed[-1 - target] += count

    def _count(self, line: int, rows: Rows) -> None:
        self.events[line] += len(rows)
        self.bytes[line] += self.sizes[rows].sum() if self.sizes.ndim else self.sizes * len(rows)

    def _result(self) -> Forwarding:
        delivered, duplicates = [], []
        for parts in self.received:
            rows = np.sort(self.order[np.concatenate(parts)]) if parts else np.empty(0, np.int32)
            first = np.ones(len(rows), np.bool_)
            first[1:] = rows[1:] != rows[:-1]
            delivered.append(rows[first])
            duplicates.append(len(rows) - len(delivered[-1]))
        switches = self.wiring.topology.switches
        return Forwarding(
            wiring=self.wiring,
            delivered=tuple(delivered),
            duplicates=np.array(duplicates, np.int64),
            misaddressed=self.misaddressed,
            events=self.events,
            bytes=self.bytes,
            lookups=self.lookups,
            misses=self.misses,
            unconnected=self.unconnected,
            hits=None if self.hits is None else dict(zip(switches, self.hits, strict=True)),
        )

    # -- where the tables lead -----------------------------------------------------------------------------------

    def _exits(self, switch: SwitchId, table: CompiledTable) -> list[_Exit]:
        exits = []
        for port, rewrites in table.by_port().items():
            line = self.wiring.leaving.get((switch, port), NOWHERE)
            host = None if line == NOWHERE else self.wiring.host_behind(line)
            proper = None if host is None else host.address
            emits, good = np.zeros((2, len(table.groups)), np.bool_)
            emits[list(rewrites)] = True
            good[[group for group, rewrite in rewrites.items() if rewrite == proper or line == NOWHERE]] = True
            astray = emits & ~good
            exits.append(_Exit(line, good, astray if astray.any() else None))
        return exits

    def _ranks(self) -> dict[int, int] | None:
        """An order of the lines in which nothing comes back to one already done, if there is one."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for line in range(2 * len(self.wiring.topology.links)):
            sorter.add(line)
            for onward, _ in self.onward[self.target[line]]:
                if onward != line ^ 1:
                    sorter.add(onward, line)
        try:
            return {line: rank for rank, line in enumerate(sorter.static_order())}
        except CycleError:
            return None

    def _loop(self, row: int) -> ForwardingLoop:
        """Follow one event until it comes back to a switch."""
        switches = self.wiring.topology.switches
        code = tuple(word[row : row + 1] for word in self.words)
        dz = self.codes.dz(int(self.order[row]))
        seen: set[int] = set()
        paths: list[tuple[int, tuple[SwitchId, ...]]] = [(self.wiring.uplink(int(self.hosts[row])), ())]
        while True:
            line, path = paths.pop()
            switch = self.target[line]
            if switches[switch] in path:
                return ForwardingLoop((*path, switches[switch]), dz)
            if line in seen:
                continue
            seen.add(line)
            group = self.tables[switch].group[self.tables[switch].find(*code)[0]]
            onward = ((n, good) for n, good in self.onward[switch] if n != line ^ 1 and good[group])
            paths += [(n, (*path, switches[switch])) for n, _ in onward]

"""Random small networks, tables and events for them.

The dz of a case are cut from a few full-length ones, some with the last bit turned, so that rules nest and events meet
them whatever the number of bits. All is drawn from a seed: drawn choice by choice, most networks stay all but empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from pleroma.index.codes import Codes
from pleroma.index.dz import Dz
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches import EmbeddedNetwork, Packet

LENGTHS = (0, 1, 3, 5, 8, 63, 64, 65, 112)
seeds = st.integers(0, 2**32 - 1).map(Random)
UNPLUGGED = Port(99)


class Sent(NamedTuple):
    host: int
    dz: Dz
    size: int


@dataclass(frozen=True)
class Cells:
    """Where the dz of one case come from."""

    bits: int
    full: tuple[int, ...]

    def part(self, rng: Random) -> Dz:
        """A dz of any length up to all bits."""
        return self._cut(rng, rng.choice([rng.randint(0, min(self.bits, 2)), rng.randint(0, self.bits), self.bits]))

    def whole(self, rng: Random) -> Dz:
        """The dz of an event, with all bits."""
        return Dz(1 << self.bits | rng.getrandbits(self.bits)) if rng.random() < 0.3 else self._cut(rng, self.bits)

    def _cut(self, rng: Random, length: int) -> Dz:
        turned = length > 0 and rng.random() < 0.5
        return Dz((1 << self.bits | rng.choice(self.full)) >> self.bits - length ^ turned)


def some_cells(rng: Random, lengths: Sequence[int] = LENGTHS) -> Cells:
    bits = rng.choice(lengths)
    return Cells(bits, tuple(rng.getrandbits(bits) for _ in range(rng.randint(1, 3))))


def codes_of(events: Sequence[Dz], bits: int) -> Codes:
    words = 1 if bits <= 64 else 2
    values = [(dz ^ 1 << bits) << 64 * words - bits for dz in events]
    rows = [[value >> 64 * (words - 1 - w) & (1 << 64) - 1 for w in range(words)] for value in values]
    return Codes(np.array(rows, np.uint64).reshape(-1, words), bits)


def any_tree(rng: Random) -> Topology:
    return _network(rng, [(i, rng.randrange(i)) for i in range(1, rng.randint(1, 6))])


def any_rings(rng: Random) -> Topology:
    """A tree and one or two links more; they may double others."""
    count = rng.randint(2, 4)
    tree = [(i, rng.randrange(i)) for i in range(1, count)]
    return _network(rng, tree + [tuple(rng.sample(range(count), 2)) for _ in range(rng.randint(1, 2))])


def any_mesh(rng: Random) -> Topology:
    """A tree and some links more, of different latencies and capacities; now and then it is in two parts."""
    count = rng.randint(1, 7)
    pairs: list[tuple[int, ...]] = [(i, rng.randrange(i)) for i in range(1, count) if rng.random() < 0.95]
    pairs += [tuple(rng.sample(range(count), 2)) for _ in range(rng.randint(0, 5) if count > 1 else 0)]
    network = _network(rng, pairs, count)
    links = tuple(replace(link, capacity=rng.choice([1e8, 1e9])) for link in network.links)
    return replace(network, links=links)


def _network(rng: Random, pairs: Sequence[tuple[int, ...]], count: int | None = None) -> Topology:
    count = count or 1 + max((end for pair in pairs for end in pair), default=0)
    names = [SwitchId(f"s{i}") for i in range(count)]
    free = [rng.sample(range(1, 17), 16) for _ in range(count)]

    def port(switch: int) -> Port:
        return Port(free[switch].pop())

    links = tuple(Link(names[a], port(a), names[b], port(b), rng.choice([0.0, 0.001, 0.003])) for a, b in pairs)
    homes = [rng.randrange(count) for _ in range(rng.randint(1, 8))]
    hosts = tuple(Host(HostId(f"h{n}"), names[s], port(s), f"10.0.0.{n + 1}") for n, s in enumerate(homes))
    return Topology(tuple(names), hosts, links)


def any_tables(topology: Topology, cells: Cells, rng: Random) -> dict[SwitchId, FlowTable]:
    """Rules without any sense: some lead nowhere, some rewrite what they should not or forget to."""
    addresses = {(h.switch, h.port): h.address for h in topology.hosts}
    some = [None, *addresses.values()]
    density = rng.choice([0.3, 0.5, 0.8])
    tables = {}
    for switch in topology.switches:
        ports = (*topology.ports[switch], UNPLUGGED)
        flows = []
        for dz in {cells.part(rng) for _ in range(rng.randint(1, 6))}:
            right = rng.random() < 0.9
            chosen = [port for port in ports if rng.random() < density]
            rewrites = [addresses.get((switch, port)) if right else rng.choice(some) for port in chosen]
            flows.append(Flow(dz, tuple(map(Output, chosen, rewrites))))
        tables[switch] = FlowTable(flows)
    return tables


def any_events(topology: Topology, cells: Cells, rng: Random) -> list[Sent]:
    hosts = range(len(topology.hosts))
    return [Sent(rng.choice(hosts), cells.whole(rng), rng.choice([0, 64, 1500])) for _ in range(rng.randint(1, 12))]


def right_tables(topology: Topology, wanted: Mapping[HostId, Sequence[Dz]]) -> dict[SwitchId, FlowTable]:
    """On a tree: for each dz that anyone wants, the ports towards all who want it or something that covers it."""
    tables = {}
    for switch in topology.switches:
        towards: dict[HostId, tuple[Port, str | None]] = {
            h.name: (h.port, h.address) for h in topology.hosts_of[switch]
        }
        for port, other, _, _ in topology.neighbours[switch]:
            beyond = [(other, switch)]
            while beyond:
                place, before = beyond.pop()
                towards |= {h.name: (port, None) for h in topology.hosts_of[place]}
                beyond += [(s, place) for _, s, _, _ in topology.neighbours[place] if s != before]
        flows = []
        for dz in {dz for each in wanted.values() for dz in each}:
            takers = (host for host, each in wanted.items() if any(other.covers(dz) for other in each))
            outputs = {Output(*towards[host]) for host in takers}
            flows.append(Flow(dz, tuple(sorted(outputs))))
        tables[switch] = FlowTable(flows)
    return tables


def live(
    topology: Topology,
    tables: Mapping[SwitchId, FlowTable],
    events: Sequence[Sent],
    *,
    capacity: bool = False,
) -> EmbeddedNetwork:
    """The embedded network after all events came to an end; payload is the row."""
    network = EmbeddedNetwork(topology, capacity=capacity)
    ops = [FlowOp(switch, Change.ADD, flow) for switch, table in tables.items() for flow in table]
    assert network.install(ops).complete
    for row, (host, dz, size) in enumerate(events):
        network.publish(topology.hosts[host].name, Packet(dz, size, row))
    network.run()
    return network

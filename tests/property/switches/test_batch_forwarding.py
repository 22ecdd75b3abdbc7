"""Two independent ways through the same tables: live event by event, and in batches."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import ForwardingLoop
from pleroma.index.dz import ROOT
from pleroma.routing.flow import Flow, FlowTable, Output
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches import CompiledTable, forward
from support.networks import (
    Sent,
    any_events,
    any_rings,
    any_tables,
    any_tree,
    codes_of,
    live,
    right_tables,
    seeds,
    some_cells,
)


def a_case(rng, topology):
    where = some_cells(rng)
    return topology, where.bits, any_tables(topology, where, rng), any_events(topology, where, rng)


def in_batch(topology, bits, tables, sent):
    hosts, dzs, sizes = zip(*sent, strict=True)
    return forward(topology, tables, codes_of(dzs, bits), hosts, sizes, count_rules=True)


def agree(network, batch):
    """Everything that both count."""
    received = Counter((delivery.host, delivery.packet.payload) for delivery in network.deliveries)
    rows = {(h.name, row) for h in network.topology.hosts for row in batch.rows(h.name).tolist()}
    assert rows == received.keys()
    for number, host in enumerate(network.topology.hosts):
        assert batch.delivered[number].tolist() == sorted(batch.delivered[number].tolist())
        assert batch.duplicates[number] == sum(n - 1 for (name, _), n in received.items() if name == host.name)
        assert batch.misaddressed[number] == network.misaddressed[host.name]
    assert batch.events.tolist() == [traffic.sent for traffic in network.line_counters]
    assert batch.bytes.tolist() == [traffic.sent_bytes for traffic in network.line_counters]
    for number, (switch, counters) in enumerate(network.counters.items()):
        assert batch.lookups[number] == counters.lookups
        assert batch.misses[number] == counters.misses
        assert batch.unconnected[number] == counters.unconnected
        table = network.tables[switch]
        assert batch.hits[switch].tolist() == [table.hits(flow.dz).packets for flow in table]
    assert network.lost == 0
    assert len(network.clock) == 0


@given(seeds, st.booleans())
def test_on_a_tree_live_and_batch_agree_whatever_the_tables(rng, capacity):
    topology, bits, tables, sent = a_case(rng, any_tree(rng))
    network = live(topology, tables, sent, capacity=capacity)
    batch = in_batch(topology, bits, tables, sent)
    agree(network, batch)
    assert not batch.duplicates.any()  # a tree has one way to everywhere
    compiled = {switch: CompiledTable.of(table, bits) for switch, table in tables.items()}
    agree(network, in_batch(topology, bits, compiled, sent))


@given(seeds)
def test_with_rings_live_and_batch_agree_or_both_find_a_loop(rng):
    topology, bits, tables, sent = a_case(rng, any_rings(rng))
    try:
        network = live(topology, tables, sent)
    except ForwardingLoop as loop:
        with pytest.raises(ForwardingLoop) as found:
            in_batch(topology, bits, tables, sent)
        for path in (loop.path, found.value.path):
            assert len(set(path)) < len(path)
            assert all(b in {n[1] for n in topology.neighbours[a]} for a, b in pairwise(path))
    else:
        agree(network, in_batch(topology, bits, tables, sent))


@given(seeds)
def test_right_tables_deliver_to_those_who_want_it_and_not_to_the_sender(rng):
    topology, where = any_tree(rng), some_cells(rng)
    wanted = {h.name: [where.part(rng) for _ in range(rng.randint(0, 3))] for h in topology.hosts}
    tables, sent = right_tables(topology, wanted), any_events(topology, where, rng)
    network = live(topology, tables, sent)
    expected = {
        (host, row)
        for row, (sender, dz, _) in enumerate(sent)
        for host, regions in wanted.items()
        if host != topology.hosts[sender].name and any(region.covers(dz) for region in regions)
    }
    received = [(delivery.host, delivery.packet.payload) for delivery in network.deliveries]
    assert set(received) == expected
    assert len(received) == len(expected)
    assert not any(network.misaddressed.values())
    agree(network, in_batch(topology, where.bits, tables, sent))


@given(st.integers(3, 6), st.integers(0, 5), seeds)
def test_sending_round_a_ring_is_a_loop_for_both(size, entry, rng):
    where = some_cells(rng)
    names = [SwitchId(f"s{i}") for i in range(size)]
    links = tuple(Link(names[i], Port(1), names[(i + 1) % size], Port(2)) for i in range(size))
    host = Host(HostId("h"), names[entry % size], Port(3), "10.0.0.1")
    topology = Topology(tuple(names), (host,), links)
    tables = dict.fromkeys(names, FlowTable([Flow(ROOT, (Output(Port(1)),))]))
    sent = [Sent(0, where.whole(rng), 100)]
    for attempt in (lambda: live(topology, tables, sent), lambda: in_batch(topology, where.bits, tables, sent)):
        with pytest.raises(ForwardingLoop, match=" > ") as found:
            attempt()
        assert found.value.path[0] == host.switch == found.value.path[-1]
        assert len(found.value.path) == size + 1

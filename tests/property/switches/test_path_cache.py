"""The live network's ways against the embedded network's packets, hop by hop and count by count."""

from collections import Counter
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import ForwardingLoop, RoutingError
from pleroma.index import IPV6, Dz
from pleroma.routing import build
from pleroma.routing.flow import Change, Flow, FlowOp, Output
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.switches.live import path_cache
from pleroma.switches.live.path import count_along, find_path, lookup_in
from pleroma.switches.live.path_cache import PathCache
from pleroma.switches.tracing.event_trace import nearest
from support.networks import any_events, any_rings, any_tables, any_tree, live, seeds, some_cells


def on_the_wire(dz):
    """What the switches see of an event: its address, filled up with zeros."""
    return IPV6.dz(IPV6.address(dz))


def a_case(rng, topology):
    where = some_cells(rng)
    sent = [each._replace(dz=on_the_wire(each.dz)) for each in any_events(topology, where, rng)]
    return topology, any_tables(topology, where, rng), sent


def alike(network, other):
    """Everything that both count."""
    assert network.line_counters == other.line_counters
    assert network.counters == other.counters
    assert network.misaddressed == other.misaddressed
    for switch, table in network.tables.items():
        assert list(table) == list(other.tables[switch])
        assert [table.hits(flow.dz) for flow in table] == [other.tables[switch].hits(flow.dz) for flow in table]


def received(network):
    return Counter((delivery.host, delivery.packet.payload) for delivery in network.deliveries)


@given(seeds)
def test_on_a_tree_an_event_goes_the_way_of_the_embedded_network(rng):
    topology, tables, sent = a_case(rng, any_tree(rng))
    reference, network = live(topology, tables, sent), live(topology, tables, [])
    found = Counter()
    for row, (host, dz, size) in enumerate(sent):
        path = find_path(network.cables, lookup_in(network), host, dz)
        assert not path.looped
        found.update((receiver.name, row) for receiver in path.receivers)
        count_along(network, path, 1, size)
    assert found == received(reference)
    alike(network, reference)


@given(seeds)
def test_with_rings_too_and_where_it_loops_each_line_is_taken_once(rng):
    topology, tables, sent = a_case(rng, any_rings(rng))
    for host, dz, size in sent:
        network = live(topology, tables, [])
        network.publish(topology.hosts[host].name, Packet(dz, size, 0))
        path = find_path(network.cables, lookup_in(network), host, dz)
        receivers = Counter((receiver.name, 0) for receiver in path.receivers)
        try:
            network.run()
        except ForwardingLoop:
            assert path.looped
            assert set(receivers) >= set(received(network))
            assert set(receivers.values()) <= {1}
            lines = [leaving.line for hop in path.hops for leaving in hop.departures if leaving.line is not None]
            assert len(set(lines)) == len(lines)
        else:
            assert not path.looped
            assert receivers == received(network)
            again = live(topology, tables, [])
            count_along(again, path, 1, size)
            alike(again, network)


def operations(topology, where, tables, rng):
    """A few changes, some of which do not fit what is there; or most rules go."""
    if rng.random() < 0.3:
        gone = [(switch, flow) for switch, table in tables.items() for flow in table if rng.random() < 0.9]
        yield from (FlowOp(switch, Change.DELETE, flow) for switch, flow in gone)
        return
    for switch in rng.choices(topology.switches, k=rng.randint(0, 4)):
        present = [flow.dz for flow in tables[switch]]
        change = rng.choice(list(Change))
        dz = rng.choice(present) if present and rng.random() < 0.7 else where.part(rng)
        if change is Change.DELETE and dz not in present:
            continue  # the one thing that does not fit and is no error
        ports = [port for port in topology.ports[switch] if rng.random() < 0.5]
        address = {h.port: h.address for h in topology.hosts_of[switch]}
        yield FlowOp(switch, change, Flow(dz, tuple(Output(port, address.get(port)) for port in ports)))


@given(seeds, st.sampled_from([0, 2, 64]), st.sampled_from([1, 3, 1000]))
def test_while_rules_change_ways_stay_true(rng, few, most):
    topology, where = any_tree(rng), some_cells(rng)
    reference, network = EmbeddedNetwork(topology), EmbeddedNetwork(topology)
    with mock.patch.multiple(path_cache, MAX_SINGLE_CUTS=few, MAX_PATHS=most, SORTED_AT_ONCE=3):
        paths = PathCache(network)
        found, row, fullest = Counter(), 0, 0
        first = [
            FlowOp(switch, Change.ADD, flow)
            for switch, table in any_tables(topology, where, rng).items()
            for flow in table
        ]
        for ops in [first, *(None for _ in range(8))]:
            changes = list(operations(topology, where, reference.tables, rng)) if ops is None else ops
            complete = reference.install(changes, atomic=True).complete
            try:
                if rng.random() < 0.5:
                    paths.install(changes)
                else:
                    paths.exchange(paths.prepare(changes))
            except RoutingError:
                assert not complete
            else:
                assert complete
            fullest = max(fullest, sum(map(len, network.tables.values())))
            for host, short, size in any_events(topology, where, rng):
                dz = on_the_wire(short)
                reference.publish(topology.hosts[host].name, Packet(dz, size, row))
                counted = paths.find(host, dz.start)
                counted.packets += 1
                counted.bytes += size
                found.update((receiver.name, row) for receiver in counted.path.receivers)
                row += 1
            reference.run()
            if rng.random() < 0.5:
                paths.flush_counts()
        paths.flush_counts()
    assert found == received(reference)
    alike(network, reference)
    assert len(paths._cuts) <= 4 * fullest + few
    assert sum(map(len, paths._found)) <= most


@given(seeds)
def test_rules_that_are_there_before_count_as_well(rng):
    topology, tables, sent = a_case(rng, any_tree(rng))
    network = live(topology, tables, [])
    paths = PathCache(network)
    for host, dz, _ in sent:
        assert paths.find(host, dz.start).path == find_path(network.cables, lookup_in(network), host, dz)


def test_a_way_is_found_once_until_rules_change():
    topology = build("line:2")
    there, elsewhere = (Dz.parse(bits).start for bits in ("0", "1"))
    with mock.patch.object(path_cache, "MAX_PATHS", 2):
        paths = PathCache(EmbeddedNetwork(topology))
        paths.install([FlowOp(topology.switches[0], Change.ADD, Flow(Dz.parse("0"), ()))])
        for _ in range(3):
            first, second = paths.find(0, there), paths.find(0, elsewhere)
            assert first is not second
            assert paths.find(0, there + 1) is first
            assert paths.find(0, elsewhere) is second
            paths.install([])
            assert paths.find(0, there) is not first
            paths.install([])


@given(seeds)
def test_without_the_address_of_an_event_the_first_switch_misses(rng):
    topology, tables, _ = a_case(rng, any_tree(rng))
    network = live(topology, tables, [])
    counted = PathCache(network).find(0, None)
    assert counted.path.receivers == ()
    assert [(hop.flow, hop.departures) for hop in counted.path.hops] == [(None, ())]


@given(seeds, st.integers(0, 5))
def test_the_nearest_rules_are_those_that_share_most_bits(rng, most):
    where = some_cells(rng)
    event = on_the_wire(where.whole(rng))
    flows = [Flow(dz, ()) for dz in {where.part(rng) for _ in range(rng.randint(0, 9))}]

    def shared(dz):
        pairs = zip(str(dz) if dz != 1 else "", str(event), strict=False)
        return next((n for n, (a, b) in enumerate(pairs) if a != b), dz.length)

    missed = [(shared(flow.dz), -flow.dz.length) for flow in flows if not Dz.covers(flow.dz, event)]
    near = nearest(flows, event, most)
    assert [(n.shared, -n.flow.dz.length) for n in near] == sorted(missed, reverse=True)[:most]
    assert all(n.shared == shared(n.flow.dz) and n.flow in flows for n in near)

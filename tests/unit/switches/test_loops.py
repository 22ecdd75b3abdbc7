"""Tables that multiply events must be found out before the copies fill the memory."""

from itertools import combinations

import numpy as np
import pytest

from pleroma.errors import ForwardingLoop
from pleroma.index.codes import Codes
from pleroma.index.dz import ROOT, Dz
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches import Cables, CompiledTable, EmbeddedNetwork, Packet, forward
from pleroma.switches.simulated.routes import Routes

HOST = 200


def joined(count, pairs):
    """Switches 0, 1, ... with the link to another on the port of its number + 1, a host at the first and the last."""
    names = [SwitchId(f"s{n}") for n in range(count)]
    links = tuple(Link(names[a], Port(b + 1), names[b], Port(a + 1)) for a, b in pairs)
    ends = (Host(HostId(f"h{n}"), names[n], Port(HOST), f"10.0.0.{n + 1}") for n in (0, count - 1))
    return Topology(tuple(names), tuple(ends), links)


def flooding(topology, dz=ROOT):
    """Every switch sends the events to every other it is linked with, and to its host."""
    tables = {}
    for switch in topology.switches:
        outputs = [Output(port) for port, *_ in topology.neighbours[switch]]
        outputs += [Output(host.port, host.address) for host in topology.hosts_of[switch]]
        tables[switch] = FlowTable([Flow(dz, tuple(outputs))])
    return tables


def installed(topology, tables):
    network = EmbeddedNetwork(topology)
    network.install([FlowOp(switch, Change.ADD, flow) for switch, table in tables.items() for flow in table])
    return network


MESH = joined(12, combinations(range(12), 2))
BOTH = Codes(np.array([[0], [1 << 63]], np.uint64), 1)


def test_flooding_a_mesh_ends_at_once_live():
    network = installed(MESH, flooding(MESH))
    network.publish("h0", Packet(Dz.parse("1")))
    with pytest.raises(ForwardingLoop):
        network.run()


def test_flooding_a_mesh_ends_at_once_in_a_batch_even_beside_events_that_do_not_loop():
    with pytest.raises(ForwardingLoop, match="send 1 in a loop: s0 > "):
        forward(MESH, flooding(MESH, Dz.parse("1")), BOTH, [0, 0])
    ends_well = {
        s: FlowTable([*table, Flow(Dz.parse("0"), (Output(Port(2)),))])
        for s, table in flooding(MESH, Dz.parse("1")).items()
    }
    with pytest.raises(ForwardingLoop, match="send 1 in a loop"):
        forward(MESH, ends_well, BOTH, [0, 0])


def test_copies_are_counted_exactly_where_every_second_switch_doubles_them():
    """A chain of 20 diamonds, each sending events on by both its sides: a million copies arrive."""
    diamonds = 20
    pairs = [p for d in range(0, 3 * diamonds, 3) for p in ((d, d + 1), (d, d + 2), (d + 1, d + 3), (d + 2, d + 3))]
    chain = joined(3 * diamonds + 1, pairs)
    tables = {}
    for n, switch in enumerate(chain.switches):
        ahead = tuple(Output(Port(b + 1)) for a, b in pairs if a == n)
        tables[switch] = FlowTable([Flow(ROOT, ahead)])
    tables[chain.switches[-1]] = FlowTable([Flow(Dz.parse("0"), (Output(Port(HOST), chain.hosts[1].address),))])
    got = forward(chain, tables, BOTH, [0, 0], [10, 1], count_rules=True)
    assert got.delivered[1].tolist() == [0]
    assert got.duplicates.tolist() == [0, 2**20 - 1]
    assert got.bytes[-1] == 10 * 2**20
    assert got.lookups[-1] == 2 * 2**20
    assert got.misses[-1] == got.hits[chain.switches[-1]][0] == 2**20


def test_on_a_tree_every_line_has_its_turn_whatever_the_tables_and_on_a_ring_only_if_they_break_it():
    def order(topology, tables):
        compiled = [CompiledTable.of(tables[switch], 1) for switch in topology.switches]
        return Routes(Cables(topology), compiled).order()

    tree = joined(5, [(0, 1), (0, 2), (1, 3), (1, 4)])
    assert sorted(order(tree, flooding(tree))) == list(range(8))
    ring = joined(3, [(0, 1), (1, 2), (0, 2)])
    assert order(ring, flooding(ring)) is None
    assert order(ring, flooding(ring) | {ring.switches[1]: FlowTable()}) is not None

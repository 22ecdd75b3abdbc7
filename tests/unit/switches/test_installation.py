"""Installing rules in the embedded network: in order, in time, and with failures."""

import pytest

from pleroma.errors import RoutingError, TableFull, UnknownName
from pleroma.index.dz import Dz
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output
from pleroma.routing.topology import Host, HostId, Port, SwitchId, Topology
from pleroma.switches import EmbeddedNetwork, Packet

A, B = SwitchId("a"), SwitchId("b")
TWO = Topology(
    (A, B),
    (Host(HostId("h1"), A, Port(1), "10.0.0.1", latency=0.0), Host(HostId("h2"), A, Port(2), "10.0.0.2", latency=0.0)),
    (),
    {A: 2},
)


def op(switch, change, bits, port=2):
    return FlowOp(switch, change, Flow(Dz.parse(bits), (Output(Port(port), f"10.0.0.{port}"),)))


def add(bits, switch=A):
    return op(switch, Change.ADD, bits)


def delete(bits, switch=A):
    return op(switch, Change.DELETE, bits)


def table(*bits):
    return FlowTable(add(each).flow for each in bits)


def refusals(installation):
    return [(refusal.op, type(refusal.error)) for refusal in installation.refused]


@pytest.fixture
def network():
    return EmbeddedNetwork(TWO)


def test_without_delay_it_is_done_on_return(network):
    done = network.install([add("0"), add("1"), add("1", B)])
    assert (done.complete, done.pending, done.finished) == (True, 0, 0.0)
    assert network.flow_tables() == {A: table("0", "1"), B: table("1")}


def test_one_by_one_only_what_is_refused_is_left_out(network):
    done = network.install([add("0"), delete("1"), add("1"), add("11"), add("11", B)])
    assert refusals(done) == [(delete("1"), RoutingError), (add("11"), TableFull)]
    assert (done.complete, done.pending) == (False, 0)
    assert network.flow_tables() == {A: table("0", "1"), B: table("11")}


def test_atomic_a_switch_takes_all_of_its_operations_or_none(network):
    ops = [add("0"), add("1"), add("11"), add("11", B)]
    done = network.install(ops, atomic=True)
    assert refusals(done) == [(each, TableFull) for each in ops[:3]]
    assert done.applied == ops[3:]
    assert network.flow_tables() == {A: table(), B: table("11")}
    assert network.install([*ops[:3], delete("0")], atomic=True).complete
    assert network.flow_tables()[A] == table("1", "11")


def test_switches_take_their_time_side_by_side(network):
    done = network.install([add("0"), add("1"), add("0", B)], delay=lambda each: 1.0 if each.switch == A else 0.25)
    assert done.pending == 3
    states = []
    for time in (0.2, 0.25, 0.9, 1.0, 1.9, 2.0):
        network.run(until=time)
        states.append((len(network.tables[A]), len(network.tables[B]), done.finished))
    assert states == [(0, 0, None), (0, 1, None), (0, 1, None), (1, 1, None), (1, 1, None), (2, 1, 2.0)]


def test_an_event_meets_the_rules_of_its_moment(network):
    network.install([add("0")], delay=lambda _: 1.0)
    network.install([delete("0")], delay=lambda _: 2.0)
    for time in (0.5, 1.5, 2.5, 3.5):
        network.publish("h1", Packet(Dz.parse("01"), payload=time), at=time)
    network.run()
    assert [d.packet.payload for d in network.deliveries] == [1.5, 2.5]
    assert network.counters[A].misses == 2


def test_a_switch_keeps_the_order_even_where_the_later_one_is_quick(network):
    slow = network.install([add("0")], delay=lambda _: 1.0)
    quick = network.install([delete("0")])
    elsewhere = network.install([add("0", B)])
    assert (slow.pending, quick.pending, elsewhere.pending) == (1, 1, 0)
    network.run()
    assert slow.complete
    assert quick.complete
    assert quick.finished == 1.0
    assert len(network.tables[A]) == 0


def test_the_order_holds_even_within_a_moment(network):
    """At 1.0 something asks for the deletion just before the addition, asked for earlier, has its turn."""
    asked = []
    network.clock.at(1.0, lambda: asked.append(network.install([delete("0")])))
    network.install([add("0")], delay=lambda _: 1.0)
    network.run()
    assert asked[0].complete
    assert len(network.tables[A]) == 0


def test_an_atomic_group_takes_effect_at_once_when_all_its_time_is_over(network):
    network.install([add("0"), add("1")], atomic=True, delay=lambda _: 1.0)
    network.run(until=1.9)
    assert len(network.tables[A]) == 0
    network.run(until=2.0)
    assert len(network.tables[A]) == 2


def test_a_failure_is_reported_and_leaves_the_rule_as_it_was(network):
    network.install([add("0"), add("0", B)])
    lost = TimeoutError("no answer")
    ops = [delete("0"), add("1"), delete("0", B)]

    def failing(each):
        return lost if each == ops[0] else None

    done = network.install(ops, failure=failing)
    assert [(refusal.op, refusal.error) for refusal in done.refused] == [(ops[0], lost)]
    assert network.flow_tables() == {A: table("0", "1"), B: table()}
    done = network.install([ops[0], add("10")], atomic=True, failure=failing, delay=lambda _: 1.0)
    network.run()
    assert [refusal.error for refusal in done.refused] == [lost, lost]
    assert network.flow_tables()[A] == table("0", "1")


def test_a_switch_that_is_down_refuses(network):
    waiting = network.install([add("0")], delay=lambda _: 1.0)
    network.set_switch("a", up=False)
    done = network.install([add("0", B)])
    network.run()
    assert done.complete
    assert refusals(waiting) == [(add("0"), RoutingError)]
    assert "down" in str(waiting.refused[0].error)


def test_whoever_asks_is_told_once_everything_is_decided(network):
    told = []
    network.install([add("0"), delete("1", B)], delay=lambda _: 1.0, then=told.append)
    network.install([], then=told.append)
    assert [len(done.ops) for done in told] == [0]
    network.run()
    assert [(done.applied, len(done.refused), done.finished) for done in told[1:]] == [([add("0")], 1, 1.0)]


def test_what_cannot_be_asked_for_changes_nothing(network):
    with pytest.raises(UnknownName, match="unknown switch 'z'"):
        network.install([add("0"), add("0", SwitchId("z"))])
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RoutingError, match="delay"):
            network.install([add("0"), add("1")], delay=lambda each, w=wrong: w if each == add("1") else 0.0)
    network.run()
    assert len(network.tables[A]) == 0
    assert network.install([add("0")]).finished == 0.0

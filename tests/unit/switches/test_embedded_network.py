"""Small networks by hand: h1 and h2 at s1, which is linked to s2 with h3, and that to s3 with h4."""

import pytest

from pleroma.errors import ForwardingLoop, RoutingError, UnknownName
from pleroma.index.dz import Dz
from pleroma.routing.flow import Change, Flow, FlowOp, Output
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches import Delivery, EmbeddedNetwork, Packet

S1, S2, S3 = (SwitchId(f"s{n}") for n in (1, 2, 3))
ADDRESS = {f"h{n}": f"10.0.0.{n}" for n in range(1, 5)}
TO_S2 = Link(S1, Port(3), S2, Port(1), latency=0.010, capacity=1e6)
TO_S3 = Link(S2, Port(3), S3, Port(1), latency=0.020, capacity=1e6)


def host(name, switch, port):
    return Host(HostId(name), switch, Port(port), ADDRESS[name], latency=0.001, capacity=1e6)


LINE = Topology(
    (S1, S2, S3), (host("h1", S1, 1), host("h2", S1, 2), host("h3", S2, 2), host("h4", S3, 2)), (TO_S2, TO_S3)
)


def add(switch, bits, *outputs):
    """Outputs are ports, or names of hosts at (port, name)."""
    made = [Output(Port(o)) if isinstance(o, int) else Output(Port(o[0]), ADDRESS[o[1]]) for o in outputs]
    return FlowOp(switch, Change.ADD, Flow(Dz.parse(bits), tuple(made)))


EVERYBODY_WANTS_1 = [
    add(S1, "1", (1, "h1"), (2, "h2"), 3),
    add(S2, "1", 1, (2, "h3"), 3),
    add(S3, "1", 1, (2, "h4")),
]


def network(ops=EVERYBODY_WANTS_1, topology=LINE, **options):
    made = EmbeddedNetwork(topology, **options)
    assert made.install(ops).complete
    return made


def packet(bits, size=100, payload=None):
    return Packet(Dz.parse(bits), size, payload)


def receivers(deliveries):
    return [delivery.host for delivery in deliveries]


def test_an_event_reaches_everybody_but_its_sender():
    for sender in ("h1", "h2", "h3", "h4"):
        net = network()
        net.publish(sender, packet("101"))
        assert sorted(receivers(net.run())) == [name for name in ADDRESS if name != sender]


def test_it_does_not_go_back_by_the_port_it_came_from():
    net = network()
    net.publish("h1", packet("1"))
    net.run()
    sent = {str(line): traffic.sent for line, traffic in net.by_line().items()}
    assert sent == {
        "s1 -> s2": 1,
        "s2 -> s1": 0,
        "s2 -> s3": 1,
        "s3 -> s2": 0,
        "h1 -> s1": 1,
        "s1 -> h1": 0,
        "h2 -> s1": 0,
        "s1 -> h2": 1,
        "h3 -> s2": 0,
        "s2 -> h3": 1,
        "h4 -> s3": 0,
        "s3 -> h4": 1,
    }


def test_the_longer_rule_wins():
    net = network([add(S1, "1", (2, "h2"), 3), add(S1, "10", 3), add(S2, "", (2, "h3"))])
    net.publish("h1", packet("100", payload="narrow"))
    net.publish("h1", packet("11", payload="wide"))
    assert {(d.host, d.packet.payload) for d in net.run()} == {("h3", "narrow"), ("h2", "wide"), ("h3", "wide")}


def test_the_destination_is_rewritten_on_the_last_hop():
    net = network()
    net.publish("h1", packet("1", payload=7))
    assert net.run() == [
        Delivery(HostId("h2"), Packet(Dz.parse("1"), 100, 7, "10.0.0.2"), pytest.approx(0.002), 1),
        Delivery(HostId("h3"), Packet(Dz.parse("1"), 100, 7, "10.0.0.3"), pytest.approx(0.012), 2),
        Delivery(HostId("h4"), Packet(Dz.parse("1"), 100, 7, "10.0.0.4"), pytest.approx(0.032), 3),
    ]


def test_rewritten_too_early_no_switch_knows_it():
    net = network([add(S1, "1", (3, "h3")), add(S2, "1", (2, "h3"))])
    net.publish("h1", packet("1"))
    assert net.run() == []
    assert (net.counters[S2].lookups, net.counters[S2].misses) == (1, 1)


def test_a_host_does_not_take_what_is_addressed_to_others():
    net = network([add(S1, "1", 1, (2, "h1"))])
    net.publish("h3", packet("1"))
    net.publish("h1", packet("1"))
    assert net.run() == []
    assert net.misaddressed == {"h1": 0, "h2": 1, "h3": 0, "h4": 0}


def test_without_a_rule_it_is_dropped_and_counted():
    net = network([add(S1, "1", 3)])
    net.publish("h1", packet("0"))
    net.publish("h1", packet("1"))
    assert net.run() == []
    assert [(c.lookups, c.misses) for c in net.counters.values()] == [(2, 1), (1, 1), (0, 0)]


def test_a_port_with_nothing_behind_it_drops_and_counts():
    net = network([add(S1, "1", (2, "h2"), 9)])
    net.publish("h1", packet("1"))
    assert receivers(net.run()) == ["h2"]
    assert net.counters[S1].unconnected == 1


def test_ports_and_rules_count_packets_and_bytes():
    net = network()
    net.publish("h1", packet("11", size=300))
    net.publish("h4", packet("10", size=50))
    net.run()
    port = net.port("s1", 3)
    assert (port.sent, port.sent_bytes, port.received, port.received_bytes) == (1, 300, 1, 50)
    hits = net.tables[S2].hits(Dz.parse("1"))
    assert (hits.packets, hits.bytes) == (2, 350)
    with pytest.raises(RoutingError, match="nothing is connected to port 9"):
        net.port("s1", 9)


def test_callbacks_hear_of_their_hosts_deliveries_and_may_answer():
    net = network()
    heard = []
    net.listen("h3", lambda _: net.publish("h3", packet("1", payload="answer")))
    net.listen("h1", heard.append)
    net.publish("h1", packet("1", payload="question"))
    net.run()
    assert [(d.packet.payload, d.time) for d in heard] == [("answer", pytest.approx(0.012 + 0.012))]


def test_time_passes_only_when_run_and_only_so_far():
    net = network()
    net.publish("h1", packet("1"), at=1.0)
    assert net.run(until=1.005) == net.deliveries
    assert (receivers(net.deliveries), net.now) == (["h2"], 1.005)
    assert receivers(net.run(until=2.0)) == ["h3", "h4"]
    assert net.now == 2.0


def test_simultaneous_packets_keep_the_order_they_were_sent_in():
    net = network()
    for payload in range(5):
        net.publish("h1", packet("1", payload=payload))
    net.run()
    assert [d.packet.payload for d in net.deliveries if d.host == "h4"] == [0, 1, 2, 3, 4]


def test_lines_of_limited_capacity_transmit_one_packet_after_the_other():
    net = network(capacity=True)
    for payload in range(2):
        net.publish("h1", packet("1", size=1250, payload=payload))  # 10 ms on a line of 1 Mbit/s
    net.run()
    assert [d.time for d in net.deliveries if d.host == "h2"] == pytest.approx([0.022, 0.032])
    assert [d.time for d in net.deliveries if d.host == "h4"] == pytest.approx([0.072, 0.082])


@pytest.mark.parametrize("wrong", [0.5, float("nan"), float("inf")])
def test_the_past_and_no_time_at_all_are_refused(wrong):
    net = network()
    net.run(until=1.0)
    with pytest.raises(RoutingError, match="no time to come"):
        net.publish("h1", packet("1"), at=wrong)
    with pytest.raises(RoutingError, match="no time to come"):
        net.run(until=wrong)
    assert net.run() == []


def test_what_is_unknown_or_impossible_is_refused():
    net = network()
    with pytest.raises(UnknownName, match="unknown host 'h9'"):
        net.publish("h9", packet("1"))
    with pytest.raises(UnknownName, match="unknown host"):
        net.listen("h9", print)
    with pytest.raises(RoutingError, match="already addressed"):
        net.publish("h1", Packet(Dz.parse("1"), destination="10.0.0.2"))
    with pytest.raises(RoutingError, match="-1 bytes"):
        Packet(Dz.parse("1"), -1)


# -- loops -----------------------------------------------------------------------------------------------------------

RING = Topology(
    (S1, S2, S3),
    (host("h1", S1, 3),),
    (Link(S1, Port(1), S2, Port(2)), Link(S2, Port(1), S3, Port(2)), Link(S3, Port(1), S1, Port(2))),
)


def test_a_loop_is_an_error_that_names_the_way():
    net = network([add(switch, "", 1) for switch in RING.switches], RING)
    net.publish("h1", packet("01"))
    with pytest.raises(ForwardingLoop, match="the tables send 01 in a loop: s1 > s2 > s3 > s1") as loop:
        net.run()
    assert loop.value.path == (S1, S2, S3, S1)


def test_a_ring_whose_tables_break_it_is_no_loop():
    net = network([add(S1, "", 1), add(S2, "", 1), add(S3, "", 2)], RING)
    net.publish("h1", packet("01"))
    assert net.run() == []
    assert net.counters[S3].misses == 0


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_cut_link_loses_what_is_sent_over_it_and_a_mended_one_does_not():
    net = network()
    net.set_link(TO_S3, up=False)
    net.publish("h1", packet("1"))
    assert receivers(net.run()) == ["h2", "h3"]
    assert net.lost == 1
    net.set_link(TO_S3, up=True)
    net.publish("h1", packet("1"))
    assert receivers(net.run()) == ["h2", "h3", "h4"]
    assert net.lost == 1


def test_cutting_a_link_loses_what_is_on_it_even_when_it_is_mended_at_once():
    net = network()
    net.publish("h1", packet("1"))
    net.run(until=0.005)
    net.set_link(TO_S2, up=False)
    net.set_link(TO_S2, up=True)
    assert receivers(net.run()) == []
    traffic = net.line_counters[net.cables.of(TO_S2)[0]]
    assert (traffic.sent, traffic.received, traffic.lost) == (1, 0, 1)
    with pytest.raises(RoutingError, match="no link of this network"):
        net.set_link(Link(S1, Port(8), S3, Port(8)), up=False)


def test_a_switch_that_comes_back_has_forgotten_its_rules_unless_told_not_to():
    for forget, expected in ((True, ["h2"]), (False, ["h2", "h3", "h4"])):
        net = network()
        net.set_switch("s2", up=False, forget=forget)
        net.publish("h1", packet("1"))
        net.publish("h3", packet("1"))
        assert receivers(net.run()) == ["h2"]
        assert net.lost == 2
        net.set_switch("s2", up=True)
        net.publish("h1", packet("1"))
        assert receivers(net.run()) == expected
    with pytest.raises(UnknownName, match="unknown switch"):
        net.set_switch("s9", up=False)


def test_a_switch_that_goes_down_loses_what_is_on_its_lines():
    net = network()
    net.publish("h1", packet("1"))
    net.run(until=0.005)
    net.set_switch("s2", up=False, forget=False)
    net.set_switch("s2", up=True)
    assert receivers(net.run()) == []
    assert net.lost == 1


def test_a_cut_line_forgets_what_waited_to_be_sent():
    net = network(capacity=True)
    for _ in range(50):
        for sender in ("h1", "h2"):  # both at 1 Mbit/s, and so is the link: half of it has to wait there
            net.publish(sender, packet("1", size=1250))
    net.run(until=0.6)
    net.set_link(TO_S2, up=False)
    net.set_link(TO_S2, up=True)
    net.publish("h1", packet("1", size=1250, payload="late"))
    late = [d.time for d in net.run() if d.host == "h3" and d.packet.payload]
    assert late == pytest.approx([0.6 + 0.011 + 0.020 + 0.011])
    assert 40 <= net.line_counters[net.cables.of(TO_S2)[0]].lost <= 45

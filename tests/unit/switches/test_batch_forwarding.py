"""Batches through small networks by hand: two ways from s1 to s4 (a diamond), one host at each switch."""

import numpy as np
import pytest

from pleroma.errors import ForwardingLoop, RoutingError, UnknownName
from pleroma.index.codes import Codes
from pleroma.index.dz import ROOT, Dz
from pleroma.routing.flow import Flow, FlowTable, Output
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches import CompiledTable, forward

S1, S2, S3, S4 = SWITCHES = tuple(SwitchId(f"s{n}") for n in (1, 2, 3, 4))
DIAMOND = Topology(
    SWITCHES,
    tuple(Host(HostId(f"h{n}"), switch, Port(9), f"10.0.0.{n}") for n, switch in enumerate(SWITCHES, 1)),
    (
        Link(S1, Port(1), S2, Port(1)),
        Link(S1, Port(2), S3, Port(1)),
        Link(S2, Port(2), S4, Port(1)),
        Link(S3, Port(2), S4, Port(2)),
    ),
)


def codes(*texts):
    return Codes(np.array([[int(text.ljust(64, "0"), 2)] for text in texts], np.uint64), len(texts[0]))


def table(switch, **rules):
    """Rules by bits (`_` is the root); 9 is the port of the switch's host."""
    address = f"10.0.0.{switch[1:]}"
    outputs = {
        bits: tuple(Output(Port(p), address if p == 9 else None) for p in ports) for bits, ports in rules.items()
    }
    return FlowTable(Flow(ROOT if bits == "_" else Dz.parse(bits[1:]), each) for bits, each in outputs.items())


LEFT_0_RIGHT_1 = {
    S1: table(S1, b0=(1,), b1=(2,), b11=()),
    S2: table(S2, _=(2, 9)),
    S3: table(S3, b1=(2,), b0=(9,)),
    S4: table(S4, _=(9,)),
}


def test_every_host_gets_its_rows_sorted():
    got = forward(DIAMOND, LEFT_0_RIGHT_1, codes("000", "100", "110", "010"), [0, 0, 0, 0], count_rules=True)
    assert [rows.tolist() for rows in got.delivered] == [[], [0, 3], [], [0, 1, 3]]
    assert got.rows("h2").tolist() == [0, 3]
    assert (got.deliveries, got.duplicates.tolist()) == (5, [0, 0, 0, 0])
    sent = {str(line): counts for line, counts in got.by_line().items() if counts[0]}
    assert sent == {
        "h1 -> s1": (4, 400),
        "s1 -> s2": (2, 200),
        "s1 -> s3": (1, 100),
        "s2 -> s4": (2, 200),
        "s3 -> s4": (1, 100),
        "s2 -> h2": (2, 200),
        "s4 -> h4": (3, 300),
    }
    assert got.lookups.tolist() == [4, 2, 1, 3]
    assert got.misses.tolist() == [0, 0, 0, 0]  # a rule without ports is no miss
    assert {switch: hits.tolist() for switch, hits in got.hits.items()} == {
        S1: [2, 1, 1],
        S2: [2],
        S3: [1, 0],
        S4: [3],
    }


def test_sizes_count_bytes_one_for_all_or_one_for_each():
    batch = (DIAMOND, LEFT_0_RIGHT_1, codes("000", "100"), [0, 0])
    uplink, left = 8, 0
    assert forward(*batch, 1500).bytes[[uplink, left]].tolist() == [3000, 1500]
    assert forward(*batch, [7, 70]).bytes[[uplink, left]].tolist() == [77, 7]


def test_an_event_that_comes_twice_is_delivered_once_and_counted():
    tables = {S1: table(S1, _=(1, 2)), S2: table(S2, _=(2,)), S3: table(S3, _=(2,)), S4: table(S4, _=(9,))}
    got = forward(DIAMOND, tables, codes("0", "1", "1"), [0, 0, 1])
    assert got.rows("h4").tolist() == [0, 1, 2]
    assert got.duplicates.tolist() == [0, 0, 0, 2]
    assert got.lookups.tolist() == [2, 3, 2, 5]


def test_a_loop_is_an_error_that_names_the_way():
    tables = {switch: table(switch, _=(1, 2)) for switch in SWITCHES}
    with pytest.raises(ForwardingLoop, match=r"the tables send 10 in a loop: s2 > s[14] > s3 > s[14] > s2"):
        forward(DIAMOND, tables, codes("10"), [1])


def test_tables_that_could_loop_are_fine_while_no_event_does():
    """0 goes round one way and 1 the other, and both are taken off before they come back."""
    tables = {
        S1: table(S1, b0=(1,), b1=(9,)),
        S2: table(S2, b0=(2,), b1=(1,)),
        S3: table(S3, b0=(9,), b1=(2,)),
        S4: table(S4, b0=(2,), b1=(1,)),
    }
    got = forward(DIAMOND, tables, codes("0", "1"), [0, 2])
    assert [rows.tolist() for rows in got.delivered] == [[1], [], [0], []]
    assert not got.duplicates.any()


def test_what_is_addressed_wrongly_is_not_taken():
    to_h1 = FlowTable([Flow(ROOT, (Output(Port(1), "10.0.0.2"), Output(Port(2)), Output(Port(9), "10.0.0.7")))])
    got = forward(DIAMOND, {S1: to_h1, S2: table(S2, _=(9,)), S3: table(S3, _=(1, 2, 7, 9))}, codes("1"), [2])
    assert got.unconnected.tolist() == [0, 0, 1, 0]
    assert got.misaddressed.tolist() == [1, 0, 0, 0]
    assert got.misses.tolist() == [0, 1, 0, 1]  # at s2 it is no event any more, s4 has no table
    assert got.deliveries == 0


def test_a_compiled_table_can_be_used_again():
    events = codes("000", "100", "110", "010")
    compiled = {switch: CompiledTable.of(each, 3) for switch, each in LEFT_0_RIGHT_1.items()}
    assert forward(DIAMOND, compiled, events, [0] * 4).rows("h4").tolist() == [0, 1, 3]
    with pytest.raises(RoutingError, match="for 3 bits, the events have 1"):
        forward(DIAMOND, compiled, codes("0"), [0])


def test_no_events_are_no_trouble():
    got = forward(DIAMOND, LEFT_0_RIGHT_1, Codes(np.empty((0, 1), np.uint64), 3), [])
    assert (got.deliveries, got.events.sum(), got.hits) == (0, 0, None)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([0],), "2 events need as many origins"),
        (([0, 4],), "4 in row 1 is the number of no host"),
        (([-1, 0],), "-1 in row 0 is the number of no host"),
        (([0, 0], [1, 2, 3]), "2 events need as many sizes"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, reason):
    with pytest.raises(RoutingError, match=reason):
        forward(DIAMOND, LEFT_0_RIGHT_1, codes("0", "1"), *arguments)


def test_tables_of_unknown_switches_are_refused():
    with pytest.raises(UnknownName, match="unknown switch 's5'"):
        forward(DIAMOND, {SwitchId("s5"): FlowTable()}, codes("0"), [0])

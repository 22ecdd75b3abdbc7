import numpy as np
import pytest

from pleroma.errors import RoutingError
from pleroma.index.codes import Codes
from pleroma.index.dz import Dz
from pleroma.routing.flow import Flow, Output
from pleroma.routing.topology import Port
from pleroma.switches import CompiledTable


def flow(bits, *ports):
    return Flow(Dz.parse(bits), tuple(Output(Port(port)) for port in ports))


def test_nested_prefixes_become_disjoint_intervals():
    table = CompiledTable.of([flow("1", 1), flow("101", 2), flow("00", 1)], bits=3)
    assert [start >> 61 for start in table.high.tolist()] == [0b000, 0b010, 0b100, 0b101, 0b110]
    assert table.rule.tolist() == [2, -1, 0, 1, 0]
    assert [table.groups[g] for g in table.group.tolist()] == [
        *(flow("00", 1).outputs, (), flow("1", 1).outputs, flow("101", 2).outputs, flow("1", 1).outputs)
    ]
    assert table.by_port() == {1: {1: None}, 2: {2: None}}


def test_rules_beyond_the_events_bits_match_nothing():
    table = CompiledTable.of([flow("1", 1), flow("1000", 2)], bits=3)
    assert table.match(Codes(np.array([[1 << 63]], np.uint64), 3)).tolist() == [0]


def test_the_second_word_decides_beyond_64_bits():
    near, far = "0" * 70 + "0", "0" * 70 + "1"
    table = CompiledTable.of([flow(near, 1), flow(far, 2)], bits=71)
    rows = [[0, 0], [0, 1 << 57], [0, 1 << 58], [1, 0]]
    assert table.match(Codes(np.array(rows, np.uint64), 71)).tolist() == [0, 1, -1, -1]


def test_the_last_rule_may_end_where_all_codes_end():
    table = CompiledTable.of([flow("", 1), flow("1" * 112, 2)], bits=112)
    last = (1 << 64) - 1
    assert table.match(Codes(np.array([[last, last << 16 & last], [last, 0]], np.uint64), 112)).tolist() == [1, 0]


def test_an_empty_table_matches_nothing():
    table = CompiledTable.of([], bits=8)
    assert table.match(Codes(np.array([[0], [2**63]], np.uint64), 8)).tolist() == [-1, -1]


def test_what_does_not_fit_is_refused():
    with pytest.raises(RoutingError, match="0 to 112 bits, not 113"):
        CompiledTable.of([], bits=113)
    with pytest.raises(RoutingError, match="names a port twice"):
        CompiledTable.of([flow("1", 1, 1)], bits=8)
    with pytest.raises(RoutingError, match="for 8 bits, the events have 9"):
        CompiledTable.of([], bits=8).match(Codes(np.empty((0, 1), np.uint64), 9))
    with pytest.raises(RoutingError, match="two words"):
        CompiledTable.of([], bits=80).find(np.empty(0, np.uint64))

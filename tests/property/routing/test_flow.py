"""From any table to any other, one operation at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.errors import RoutingError
from pleroma.index import Dz
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output, difference, in_safe_order
from support.flow_tables import POINTS, outputs, tables


@settings(max_examples=500)
@given(tables() | st.just(FlowTable()), tables() | st.just(FlowTable()), st.randoms(use_true_random=False))
def test_in_safe_order_nothing_is_lost_that_is_wanted_before_and_after(before, after, random):
    ops = difference("R1", before, after)
    random.shuffle(ops)
    table = before.copy()
    for op in in_safe_order(ops):
        table.apply(op)
        for point in POINTS:
            assert outputs(before, point) & outputs(after, point) <= outputs(table, point)
    assert table == after


def test_tables_are_equal_only_if_they_have_the_same_rules():
    assert FlowTable([flow("0", 1), flow("1", 2)]) == FlowTable([flow("1", 2), flow("0", 1)])
    assert FlowTable([flow("0", 1)]) != FlowTable([flow("0", 2)])
    assert FlowTable() != {}


def test_a_shorter_deletion_goes_before_the_longer_one_that_it_covers():
    ops = [str(op) for op in in_safe_order(difference("R1", FlowTable([flow("00", 1, 2), flow("0", 1)]), FlowTable()))]
    assert ops == ["R1: delete 0 -> 1", "R1: delete 00 -> 1,2"]


def test_a_longer_addition_goes_before_the_one_that_covers_it():
    """The other way round, events in 00 would miss port 2 for a moment."""
    before = FlowTable([flow("", 1, 2)])
    after = FlowTable([flow("0", 1), flow("00", 1, 2), flow("1", 1)])
    ops = [str(op) for op in in_safe_order(difference("R1", before, after))]
    assert ops.index("R1: add 00 -> 1,2") < ops.index("R1: add 0 -> 1") < ops.index("R1: delete ε -> 1,2")


@pytest.mark.parametrize(
    ("change", "bits", "reason"),
    [
        (Change.ADD, "1", "cannot add 1: the rule is already there"),
        (Change.MODIFY, "0", "cannot modify 0: the rule is not there"),
        (Change.DELETE, "11", "cannot delete 11: the rule is not there"),
    ],
)
def test_an_operation_that_does_not_fit_is_refused_and_changes_nothing(change, bits, reason):
    table = FlowTable([flow("1", 2)])
    with pytest.raises(RoutingError, match=reason):
        table.apply(FlowOp("R1", change, flow(bits, 3)))
    assert table == FlowTable([flow("1", 2)])


def flow(bits, *ports):
    return Flow(Dz.parse(bits), tuple(Output(p) for p in ports))

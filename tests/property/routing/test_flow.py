"""From any table to any other, one operation at a time."""

from hypothesis import given
from hypothesis import strategies as st

from flow_tables import POINTS, outputs, tables
from pleroma.routing.flow import FlowTable, difference, in_safe_order


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

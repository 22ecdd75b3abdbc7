"""Medians of any workload: enough of them, in order, and none that another would better."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.selection.adaptive import medians

EXTENT = (0.0, 12.0)
loads = st.lists(st.tuples(st.integers(0, 12) | st.floats(0, 12), st.integers(0, 4)), max_size=25)


def split(events, bits):
    values, load = np.array(events, np.float64).reshape(-1, 2).T
    return medians(values, load.astype(np.int64), EXTENT, bits)


@given(loads, st.integers(0, 5))
def test_boundaries_are_sorted_within_the_extent_and_of_the_right_number(events, bits):
    found = split(events, bits)
    assert len(found) == (1 << bits) - 1
    assert all(before <= after for before, after in pairwise(found))
    assert all(EXTENT[0] <= cut <= EXTENT[1] for cut in found)


@given(loads)
def test_no_other_cut_between_values_balances_better(events):
    (cut,) = split(events, 1)
    total = sum(load for _, load in events)
    values = sorted({value for value, _ in events})
    if not total:
        assert cut == 6.0
    elif len(values) > 1:

        def imbalance(at):
            return abs(2 * sum(load for value, load in events if value < at) - total)

        assert cut in values[1:]
        assert imbalance(cut) == min(map(imbalance, values[1:]))


@given(loads, st.integers(1, 4))
def test_a_deeper_split_keeps_the_boundaries_of_the_shallower(events, bits):
    assert split(events, bits)[1::2] == split(events, bits - 1)

"""Loads against plain multisets of rows."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.switches.simulated.in_flight import InFlight

multisets = st.dictionaries(st.integers(0, 9), st.integers(1, 3) | st.just(1), max_size=6).map(Counter)


def as_load(rows):
    listed = sorted(rows)
    times = [rows[row] for row in listed]
    return InFlight(np.array(listed, np.int32), None if set(times) <= {1} else np.array(times, np.int64))


def as_multiset(load):
    assert (np.diff(load.rows) > 0).all()
    times = np.ones(len(load.rows), np.int64) if load.times is None else load.times
    return Counter(dict(zip(load.rows.tolist(), times.tolist(), strict=True)))


@given(st.lists(multisets, min_size=1, max_size=4))
def test_merging_adds_up(parts):
    merged = InFlight.merge([as_load(part) for part in parts])
    assert as_multiset(merged) == sum(parts, Counter())
    assert merged.rows.dtype == np.int32


@given(multisets, st.sets(st.integers(0, 9)), st.lists(st.integers(0, 1500), min_size=10, max_size=10))
def test_choosing_and_counting(rows, chosen, sizes):
    load = as_load(rows)
    part = load.where(np.isin(load.rows, list(chosen)))
    assert as_multiset(part) == Counter({row: n for row, n in rows.items() if row in chosen})
    assert load.copies == rows.total()
    assert load.bytes(np.array(100)) == 100 * rows.total()
    assert load.bytes(np.array(sizes)) == sum(sizes[row] for row in rows.elements())
    if rows:
        assert rows[load.most_copied] == max(rows.values())

"""No index ever misses: random schemas, grids, filters, limits and events."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter
from pleroma.index import Dz, DzSet, GridIndex, IndexPlan
from support.grids import grids
from support.strategies import events, filters, schemas


@st.composite
def cases(draw):
    schema = draw(schemas())
    return draw(grids(schema)), draw(filters(schema)), draw(st.lists(events(schema), min_size=1, max_size=8))


limits = st.tuples(st.none() | st.integers(0, 112), st.integers(1, 40))


@given(cases(), limits)
def test_an_event_in_a_filter_has_a_dz_in_its_cover(case, limit):
    index, wanted, points = case
    length, members = limit
    cover = index.cover(wanted, max_length=length, max_members=members)
    assert len(cover) <= members
    assert cover.longest <= (index.bits if length is None else length)
    for event in points:
        if wanted.matches(event):
            assert cover.covers(index.dz(event))


@given(cases())
def test_a_batch_gets_the_bits_of_its_events_one_by_one(case):
    index, _, points = case
    codes = index.encode(np.array([event.coordinates() for event in points]))
    assert [codes.dz(row) for row in range(len(codes))] == [index.dz(event) for event in points]


@given(cases())
def test_a_plan_read_back_gives_the_same_bits(case):
    index, _, points = case
    again = IndexPlan.loads(IndexPlan(7, index).dumps())
    assert again.epoch == 7
    assert [again.index.dz(e) for e in points] == [index.dz(e) for e in points]


@given(cases())
def test_left_aligned_codes_make_a_prefix_an_interval(case):
    index, _, points = case
    codes = index.encode(np.array([event.coordinates() for event in points]))
    for row in range(len(codes)):
        value = int.from_bytes(codes.words[row].astype(">u8").tobytes())
        width = 64 * codes.words.shape[1]
        dz = codes.dz(row)
        for length in range(0, dz.length + 1, 5):
            prefix = dz.truncate(length)
            first = (prefix ^ 1 << length) << width - length
            assert first <= value < first + (1 << width - length)


@st.composite
def small_cases(draw):
    """Grids small enough to visit every cell."""
    schema = draw(schemas().filter(lambda s: all(a.kind not in ("real", "text") for a in s.attributes)))
    chosen = draw(st.lists(st.integers(0, len(schema) - 1), max_size=9))
    order = [d for i, d in enumerate(chosen) if chosen[:i].count(d) < schema.attributes[d].bits]
    return GridIndex(schema, tuple(order)), draw(filters(schema))


def cells_met(index: GridIndex, wanted: Filter) -> DzSet:
    """Brute force: every cell of full depth whose coordinates meet a box."""
    met = []
    for code in range(1 << index.bits, 1 << index.bits + 1):
        cell = dict.fromkeys(index.axes, 0)
        for place, d in enumerate(index.order):
            cell[d] = cell[d] << 1 | code >> index.bits - 1 - place & 1
        for box in wanted.boxes:
            spans = {d: index.schema.attributes[d].span(box.ranges[d]) for d in index.axes}
            if all(index.axes[d].cell(spans[d][0]) <= cell[d] <= index.axes[d].cell(spans[d][1]) for d in index.axes):
                met.append(Dz(code))
                break
    return DzSet(met)


@given(small_cases())
def test_without_limits_a_cover_is_exactly_the_cells_that_meet_the_filter(case):
    index, wanted = case
    assert index.cover(wanted) == cells_met(index, wanted)


@given(small_cases(), st.integers(1, 10), st.integers(0, 9))
def test_a_limited_cover_is_close_to_the_smallest_possible(case, most, length):
    index, wanted = case
    exact = index.cover(wanted, max_length=length)
    assert exact == cells_met(index, wanted).truncate(length)
    if exact:
        limited = index.cover(wanted, max_length=length, max_members=most)
        assert limited.atoms <= 1.2 * exact.coarsen(most).atoms

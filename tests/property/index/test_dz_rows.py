"""Sorted rows of cells against sets of dz: short ones, and those of more than a word."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz, DzSet
from pleroma.index.codes import Codes
from pleroma.index.dz_rows import events_in, gathered, members, ordered, packed, unfilled, union
from pleroma.index.longest_match import filled

MORE = 6


@st.composite
def cells(draw):
    """All behind the same bits, so that they meet; a few of them anywhere."""
    length = draw(st.sampled_from([0, 3, 52, 60, 63, 64, 90, 106]))
    prefix = Dz(1 << length | draw(st.integers(0, (1 << length) - 1)))
    ends = st.integers(0, MORE).flatmap(lambda n: st.integers(1 << n, (2 << n) - 1)).map(Dz)
    return prefix, draw(st.lists(st.one_of(ends.map(prefix.then), ends), max_size=24))


def rows(listed):
    return np.concatenate([np.zeros((0, 2), np.uint64), *(packed(DzSet([dz])) for dz in listed)])


def in_order(listed):
    return sorted(set(listed), key=lambda dz: (dz.start, dz.length))


@given(cells())
def test_sorting_puts_a_dz_behind_those_that_cover_it(given_cells):
    _, listed = given_cells
    np.testing.assert_array_equal(ordered(rows(listed)), rows(in_order(listed)))


@given(cells(), st.integers(0, 24))
def test_members_and_unions_are_those_of_regions(given_cells, at):
    _, listed = given_cells
    np.testing.assert_array_equal(members(rows(listed)), packed(DzSet(listed)))
    parts = [packed(DzSet(listed[:at])), packed(DzSet(listed[at:]))]
    np.testing.assert_array_equal(union(parts), packed(DzSet(listed)))
    np.testing.assert_array_equal(gathered(parts), rows(in_order([*DzSet(listed[:at]), *DzSet(listed[at:])])))


@given(cells())
def test_what_longer_ones_fill_is_no_rule(given_cells):
    _, listed = given_cells
    assert unfilled(ordered(rows(listed))) == len(set(listed)) - len(filled(listed))


@given(cells())
def test_another_cell_never_makes_fewer_rules(given_cells):
    _, listed = given_cells
    counts = [unfilled(ordered(rows(listed[:n]))) for n in range(len(listed) + 1)]
    assert counts == sorted(counts)


@given(cells(), st.data())
def test_a_cell_holds_the_events_whose_codes_begin_with_it(given_cells, data):
    prefix, listed = given_cells
    bits = prefix.length + MORE
    near = st.integers(0, (1 << MORE) - 1).map(lambda n: prefix.then(Dz(1 << MORE | n)))
    far = st.integers(0, (1 << bits) - 1).map(lambda n: Dz(1 << bits | n))
    events = data.draw(st.lists(st.one_of(near, far), max_size=20))
    words = 2 if bits > 64 else 1
    atoms = [[event.start >> 48, (event.start & (1 << 48) - 1) << 16][:words] for event in events]
    codes = Codes(np.array(atoms, np.uint64).reshape(-1, words), bits)
    found = events_in(codes, rows(listed))
    assert found.tolist() == [sum(dz.covers(event) for event in events) for dz in listed]

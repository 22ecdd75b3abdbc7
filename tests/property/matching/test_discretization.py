"""Ranges to cells and back, as bits too."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import IndexingError
from pleroma.matching.tama.counting_kernels import cell_of
from pleroma.matching.tama.discretization import LevelCell, Separation, discretize
from pleroma.matching.tama.encoding import decode_cells, decode_value, encode_cells, encode_value


@st.composite
def spans(draw, deepest=12):
    level = draw(st.integers(0, deepest))
    first = draw(st.integers(0, 2**level - 1))
    return first, draw(st.integers(first, 2**level - 1)), level


@given(spans())
def test_the_cells_are_just_the_range_and_at_most_two_a_level(span):
    first, last, level = span
    cells = discretize(first, last, level)
    leaves = [leaf for c in cells for leaf in range(c.number << level - c.level, c.number + 1 << level - c.level)]
    assert sorted(leaves) == list(range(first, last + 1))
    levels = [cell.level for cell in cells]
    assert all(levels.count(each) <= 2 for each in levels)


@given(spans(deepest=26))
def test_cells_survive_being_sent_as_bits(span):
    first, last, level = span
    cells = discretize(first, last, level)
    data = encode_cells(cells, level)
    assert decode_cells(data) == cells
    assert len(data) <= 10 + (level - cells[0].level) / 4 + 1, "as short as the paper says"


@given(spans(deepest=26), st.data())
def test_a_value_survives_being_sent_as_bits(span, data):
    cell, _, level = span
    first_level = data.draw(st.integers(0, level))
    expected = [LevelCell(each, cell >> (level - each)) for each in range(first_level, level + 1)]
    assert decode_value(encode_value(cell, first_level, level)) == expected


@given(st.binary(max_size=20) | st.binary(max_size=9).map(lambda data: bytes([8 * len(data)]) + data))
def test_bits_from_anywhere_are_cells_or_refused(data):
    try:
        cells = decode_cells(data)
    except IndexingError:
        return
    deepest = max(cell.level for cell in cells)
    leaves = sorted((c.number << deepest - c.level, c.number + 1 << deepest - c.level) for c in cells)
    assert all(end == begin for (_, end), (begin, _) in pairwise(leaves)), "one range without a gap"
    assert 0 <= leaves[0][0] < leaves[-1][1] <= 1 << deepest


def test_cells_of_no_range_are_refused():
    with pytest.raises(IndexingError):
        encode_cells([LevelCell(3, 1), LevelCell(3, 6), LevelCell(4, 0)], 4)
    with pytest.raises(IndexingError):
        discretize(3, 2, 4)
    with pytest.raises(IndexingError):
        discretize(0, 0, 27)


@given(
    st.lists(st.floats(-100, 100), min_size=2, unique=True),
    st.integers(1, 40),
    st.lists(st.floats(-120, 120)),
    st.integers(0, 20),
)
def test_the_kernel_separates_like_its_twin_and_never_reorders(sample, steps, values, level):
    separation = Separation.fitted(sample, steps)
    numbers = [separation.cell(value, level) for value in sorted(values)]
    assert numbers == sorted(numbers)
    assert numbers == [cell_of(np.array(separation.knots), value, level) for value in sorted(values)]


@given(st.lists(st.integers(1, 50), min_size=4, max_size=4))
def test_optimal_separation_halves_at_the_median(gaps):
    """Algorithm 3, cell by cell, with a distribution function of four straight pieces."""
    knots = [Fraction(sum(gaps[:i])) for i in range(5)]

    def inverse(probability):
        piece = min(int(probability * 4), 3)
        return knots[piece] + (probability * 4 - piece) * (knots[piece + 1] - knots[piece])

    separation = Separation(tuple(map(float, knots)))
    parts = [(Fraction(0), Fraction(1))]
    for level in range(1, 5):
        parts = [half for a, b in parts for half in ((a, (a + b) / 2), ((a + b) / 2, b))]
        for number, (a, b) in enumerate(parts):
            assert separation.cell(float(inverse((a + b) / 2)), level) == number

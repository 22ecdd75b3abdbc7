"""What rows of bits deliver is what the reference evaluator delivers, one event and one filter at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.evaluation.grid_evaluator import GridEvaluator, cells
from pleroma.index import GridIndex, evaluate
from pleroma.index.axis import Axis
from pleroma.selection.adaptive import adaptive_grid
from support.small_traffic import dimensions, sample_of, traffic
from support.strategies import attributes, events

BITS = st.integers(1, 9)


@st.composite
def listed_grids(draw, schema):
    """Few bits in any order, most dimensions with boundaries anywhere in their extent."""
    left = {d: min(a.bits, 3) for d, a in enumerate(schema.attributes)}
    order = []
    for d in draw(st.lists(st.integers(0, len(schema) - 1), max_size=8)):
        if left[d]:
            left[d] -= 1
            order.append(d)
    boundaries = {}
    for d in sorted(set(order)):
        if draw(st.integers(0, 3)):
            low, high = schema.attributes[d].extent
            n = (1 << order.count(d)) - 1
            cuts = st.floats(0, 1).map(lambda share, low=low, high=high: min(low + share * (high - low), high))
            boundaries[d] = tuple(sorted(draw(st.lists(cuts, min_size=n, max_size=n))))
    return GridIndex(schema, tuple(order), boundaries)


def check_regular(drawn, bits, dims):
    schema, subscriptions, listed = drawn
    index = GridIndex.regular(schema, bits, [schema.names[d] for d in dims])
    evaluator = GridEvaluator(sample_of(*drawn), bits)
    expected = evaluate(index, subscriptions, listed)
    assert evaluator.waste(dims) == expected
    assert evaluator.waste(reversed(dims)) == expected  # known by now
    assert evaluator.waste_of(index) == expected


@given(st.data(), BITS)
def test_subsets_of_dimensions_waste_what_the_reference_says_for_single_boxes(data, bits):
    drawn = data.draw(traffic(most_boxes=1))
    check_regular(drawn, bits, data.draw(dimensions(drawn[0])))


@given(st.data(), BITS)
def test_subsets_of_dimensions_waste_what_the_reference_says_for_unions_of_boxes(data, bits):
    drawn = data.draw(traffic(most_boxes=4))
    check_regular(drawn, bits, data.draw(dimensions(drawn[0])))


@given(st.data())
def test_grids_with_listed_boundaries_waste_what_the_reference_says(data):
    drawn = data.draw(traffic(most_boxes=3))
    index = data.draw(listed_grids(drawn[0]))
    assert GridEvaluator(sample_of(*drawn), 8).waste_of(index) == evaluate(index, *drawn[1:])


@given(st.data(), BITS)
def test_adaptive_grids_waste_what_the_reference_says_and_miss_no_unseen_event(data, bits):
    schema, subscriptions, listed = data.draw(traffic(most_boxes=3))
    index = adaptive_grid(sample_of(schema, subscriptions, listed), bits, data.draw(st.none() | dimensions(schema)))
    unseen = data.draw(st.lists(events(schema), min_size=1, max_size=10))
    for part in (listed, unseen):
        reference = evaluate(index, subscriptions, part)  # raises where an event is missed
        assert GridEvaluator(sample_of(schema, subscriptions, part), bits).waste_of(index) == reference


@given(st.data())
def test_owners_of_many_boxes_count_once_beyond_a_word_of_bits(data):
    """More than 64 boxes, those of one owner on both sides of the border between two words."""
    schema, subscriptions, listed = data.draw(traffic(most_boxes=4))
    if not any(subscriptions):
        return
    several = list(subscriptions)
    while sum(len(f.boxes) for f in several) < 150:
        several += subscriptions
    bits = data.draw(st.integers(1, 4))
    index = GridIndex.regular(schema, bits)
    expected = evaluate(index, several, listed)
    assert GridEvaluator(sample_of(schema, several, listed), bits).waste(range(len(schema))) == expected


@given(st.data())
def test_a_column_falls_into_the_cells_of_its_values_at_any_depth(data):
    attribute = data.draw(attributes())
    low, high = attribute.extent
    inside = st.floats(0, 1).map(lambda share: min(low + share * (high - low), high))
    values = data.draw(st.lists(inside, min_size=1, max_size=20))
    axis = Axis.of(attribute, data.draw(st.integers(0, attribute.bits)))
    found, expected = cells(axis, np.array(values)).tolist(), [axis.cell(value) for value in values]
    if axis.bits <= 53:
        assert found == expected
    else:  # beyond what doubles tell apart, the last cell may have another number, but not another order
        assert [a < b for a in found for b in found] == [a < b for a in expected for b in expected]

"""The third view of a value: an index must never place a key outside the span of a range that holds it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Text
from pleroma.content.attribute import EQUALITY, ORDER
from pleroma.content.text import LINEARISATIONS
from support.strategies import TEXTS, attributes, every_event, ranges, tiny_schemas, values


def some_keys(data, attribute, part):
    """Keys in a range: its first, and drawn ones that happen to lie in it."""
    drawn = data.draw(st.lists(values(attribute), max_size=10))
    return [part.lo, *(key for key in map(attribute.key, drawn) if key in part)]


@given(st.data())
def test_the_span_of_a_range_holds_the_coordinate_of_every_key_in_it(data):
    attribute = data.draw(attributes())
    part = data.draw(ranges(attribute))
    first, last = attribute.span(part)
    assert first <= last
    for key in some_keys(data, attribute, part):
        assert first <= attribute.coordinate(key) <= last


@pytest.mark.parametrize("linearise", LINEARISATIONS)
def test_the_span_of_texts_holds_every_text_between(linearise):
    attribute = Text("a", True, linearise)
    bounds = [(operator, text) for operator in (*EQUALITY, *ORDER, "startswith") for text in TEXTS]
    bounds += [("between", sorted(pair)) for pair in itertools.combinations(TEXTS, 2)]
    for part in {part for bound in bounds for part in attribute.select(*bound)}:
        first, last = attribute.span(part)
        for key in map(attribute.key, TEXTS):
            assert key not in part or first <= attribute.coordinate(key) <= last, (part, key)


@given(st.data())
def test_a_wider_range_has_a_wider_span(data):
    attribute = data.draw(attributes())
    part, other = data.draw(ranges(attribute)), data.draw(ranges(attribute))
    common = part.meet(other)
    if common is not None:
        (first, last), (inner_first, inner_last) = attribute.span(part), attribute.span(common)
        assert first <= inner_first <= inner_last <= last


@given(st.data())
def test_coordinates_keep_the_order_of_keys_unless_they_are_hashed(data):
    attribute = data.draw(attributes().filter(lambda a: getattr(a, "linearise", "order") == "order"))
    keys = sorted(map(attribute.key, data.draw(st.lists(values(attribute), min_size=2))))
    keys = [attribute.absent, *keys] if attribute.optional else keys
    coordinates = [attribute.coordinate(key) for key in keys]
    assert coordinates == sorted(coordinates)


@given(st.data())
def test_coordinates_lie_in_the_extent(data):
    attribute = data.draw(attributes())
    low, high = attribute.extent
    for value in data.draw(st.lists(values(attribute), min_size=1)):
        assert low <= attribute.coordinate(attribute.key(value)) <= high
    assert low <= attribute.coordinate(attribute.absent) <= high


@given(tiny_schemas())
def test_whole_numbers_and_categories_have_exact_spans_and_enough_bits(schema):
    for event in every_event(schema):
        for attribute, key, at in zip(schema.attributes, event.value_keys, event.coordinates(), strict=True):
            if key in attribute.present:
                (alone,) = attribute.select("==", attribute.value(key))
                assert attribute.span(alone) == (at, at)
                low, high = attribute.extent
                assert (high - low) <= 2**attribute.bits

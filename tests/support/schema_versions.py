"""Schemas with a later version."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from pleroma.content import Attribute, Boolean, Category, Integer, Real, Schema
from support.strategies import LARGEST_INTEGER, LARGEST_REAL, attributes, schemas


def wider(draw: st.DrawFn, attribute: Attribute) -> Attribute:
    """The same attribute with a domain that is wider, or as wide."""
    match attribute:
        case Boolean():
            return attribute
        case Category():
            more = draw(st.lists(st.text(max_size=2), max_size=3, unique=True))
            return replace(attribute, values=tuple(dict.fromkeys((*attribute.values, *more))))
        case Integer():
            low = draw(st.just(attribute.low) | st.integers(-LARGEST_INTEGER, attribute.low))
            high = draw(st.just(attribute.high) | st.integers(attribute.high, LARGEST_INTEGER))
            return replace(attribute, low=low, high=high)
        case Real():
            first = draw(st.just(attribute.low) | st.floats(-LARGEST_REAL, attribute.low))
            last = draw(st.just(attribute.high) | st.floats(attribute.high, LARGEST_REAL))
            is_open = attribute.open_low and first == attribute.low, attribute.open_high and last == attribute.high
            return Real(attribute.name, attribute.optional, first, last, *is_open)
    return attribute


@st.composite
def versions(draw: st.DrawFn, most: int = 4) -> tuple[Schema, Schema]:
    """A schema, and a later version of it."""
    earlier = draw(schemas(most=most))
    names = [f"new{n}" for n in range(draw(st.integers(0, 2)))]
    new = [replace(draw(attributes(name)), optional=True) for name in names]
    later = tuple(wider(draw, each) for each in earlier.attributes)
    return earlier, Schema(earlier.name, (*later, *new))

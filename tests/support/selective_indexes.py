"""Selective indexes of every kind, with filters and events."""

from collections.abc import Iterable

from hypothesis import strategies as st

from pleroma.content import Event, Filter, Schema
from pleroma.index import Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.selection.selective_indexing import numbers
from support.grids import grids
from support.strategies import events, filters, schemas


@st.composite
def rectangles(draw: st.DrawFn, schema: Schema, wanted: Iterable[Filter]) -> Rectangle:
    """Around boxes of the filters, or anywhere."""
    sides = []
    boxes = [box for each in wanted for box in each.boxes]
    near = draw(st.sampled_from([*boxes, None]))
    for d, attribute in enumerate(schema.attributes):
        low, high = attribute.extent
        span = (low, high) if near is None else attribute.span(near.ranges[d])
        if draw(st.booleans()):
            shares = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
            first, last = (min(low + share * (high - low), high) for share in shares)
            span = (first, last)
        sides.append((float(span[0]), float(span[1])))
    return Rectangle(tuple(sides))


@st.composite
def cases(draw: st.DrawFn) -> tuple[SelectiveIndex, list[Filter], list[Event]]:
    """A selective index, filters that it may have been made for, and events."""
    schema = draw(schemas(most=4))
    wanted = draw(st.lists(filters(schema, 3), min_size=1, max_size=4))
    found = draw(st.lists(rectangles(schema, wanted), max_size=5))
    most = 112 - numbers(len(found))[-1].length
    places = zip(numbers(len(found)), [*found, None], strict=True)
    regions = tuple(SelectiveRegion(number, rectangle, draw(grids(schema, most))) for number, rectangle in places)
    index = SelectiveIndex(schema, regions, draw(st.booleans()), draw(st.booleans()))
    return index, wanted, draw(st.lists(events(schema), min_size=1, max_size=8))

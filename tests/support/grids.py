"""Grids of every kind."""

from hypothesis import strategies as st

from pleroma.content import Schema
from pleroma.index import GridIndex


@st.composite
def grids(draw: st.DrawFn, schema: Schema, most: int = 112) -> GridIndex:
    """Any dimensions in any order, with any number of bits; equal cells, of all or a part, or listed boundaries."""
    left = {d: a.bits for d, a in enumerate(schema.attributes)}
    order: list[int] = []
    for d in draw(
        st.lists(st.integers(0, len(schema) - 1), max_size=draw(st.sampled_from([min(n, most) for n in (6, 24, 112)])))
    ):
        if left[d]:
            left[d] -= 1
            order.append(d)
    boundaries = {}
    for d in set(order):
        bits = order.count(d)
        if bits <= 4 and draw(st.booleans()):
            low, high = schema.attributes[d].extent
            cuts = st.floats(low, high) if low < high else st.just(low)
            n = (1 << bits) - 1
            boundaries[d] = tuple(sorted(draw(st.lists(cuts, min_size=n, max_size=n))))
    within = {}
    for d in set(order) - set(boundaries):
        if draw(st.booleans()):
            low, high = schema.attributes[d].extent
            shares = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
            first, last = (min(low + share * (high - low), high) for share in shares)
            within[d] = (first, last)
    return GridIndex(schema, tuple(order), boundaries, within)

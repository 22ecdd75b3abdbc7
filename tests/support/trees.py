"""Trees of every kind."""

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st

from pleroma.content import Filter, Schema
from pleroma.index import TreeIndex
from pleroma.index.tree_walk import LEAF


@st.composite
def trees(draw: st.DrawFn, schema: Schema, wanted: Iterable[Filter], bits: int = 112, most: int = 40) -> TreeIndex:
    """Any splits, at the borders of the boxes or anywhere, deep or even."""
    borders: dict[int, list[float]] = {d: [] for d in range(len(schema))}
    for each in wanted:
        for box in each.boxes:
            for d, attribute in enumerate(schema.attributes):
                first, last = attribute.span(box.ranges[d])
                borders[d] += [float(first), float(np.nextafter(last, np.inf))]
    dims: list[int] = []
    cuts: list[float] = []
    todo = [0]  # depths of nodes still to come, the next one last
    while todo:
        depth = todo.pop()
        if depth == bits or len(cuts) == most or not draw(st.integers(0, 3)):
            dims.append(LEAF)
            continue
        d = draw(st.integers(0, len(schema) - 1))
        low, high = schema.attributes[d].extent
        anywhere = st.floats(low, high) if low < high else st.just(low)
        dims.append(d)
        cuts.append(draw(st.sampled_from(borders[d]) | anywhere if borders[d] else anywhere))
        todo += [depth + 1, depth + 1]
    return TreeIndex(schema, bits, tuple(dims), tuple(map(float, cuts)))

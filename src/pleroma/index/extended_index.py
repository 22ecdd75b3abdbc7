"""An index on a later version of its schema, in which every event of the earlier version keeps its dz.

An index does not look at attributes that are new. Where a domain has become wider, cells at its ends reach further: the
cuts stay where they are. An event without a value lies at the lower end of a domain, and stays in the first cell.
"""

from __future__ import annotations

import math

from pleroma.content import Attribute, Schema
from pleroma.errors import PlanError
from pleroma.index.grid_index import GridIndex, Span
from pleroma.index.plan import Index
from pleroma.index.selective_index import Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.index.tree_index import TreeIndex
from pleroma.index.tree_walk import LEAF


def extended(index: Index, schema: Schema) -> Index:
    """The same index for a later version of its schema (`pleroma.content.schema_versions`)."""
    if isinstance(index, GridIndex):
        return _grid(index, schema)
    if isinstance(index, SelectiveIndex):
        regions = tuple(_region(each, index.schema, schema) for each in index.regions)
        return SelectiveIndex(schema, regions, index.repeated, index.quiet)
    assert isinstance(index, TreeIndex)  # noqa: S101 (there is no fourth kind)
    split = (d for d in index.dimensions if d != LEAF)
    before, after = index.schema.attributes, schema.attributes
    cuts = tuple(_cut(cut, before[d], after[d]) for d, cut in zip(split, index.cuts, strict=True))
    return TreeIndex(schema, index.bits, index.dimensions, cuts)


def _grid(grid: GridIndex, schema: Schema) -> GridIndex:
    before, after = grid.schema.attributes, schema.attributes
    boundaries = {d: tuple(_cut(cut, before[d], after[d]) for cut in cuts) for d, cuts in grid.boundaries.items()}
    for d, (low, _) in grid.within.items():
        lowest, is_lower = before[d].extent[0], after[d].extent[0] < before[d].extent[0]
        if low < lowest and is_lower and before[d].optional:
            reason = "its cells begin below the domain, and events without a value would move: use another plan first"
            raise PlanError(reason, field=before[d].name, value=low)
    wider = [d for d in grid.axes if d not in boundaries and before[d].extent != after[d].extent]
    return GridIndex(schema, grid.order, boundaries, {d: before[d].extent for d in wider} | dict(grid.within))


def _region(region: SelectiveRegion, before: Schema, after: Schema) -> SelectiveRegion:
    rectangle = region.rectangle
    if rectangle is not None:
        sides = [
            _side(side, *both)
            for side, *both in zip(rectangle.sides, before.attributes, after.attributes, strict=False)
        ]
        rectangle = Rectangle((*sides, *(each.extent for each in after.attributes[len(sides) :])))
    return SelectiveRegion(region.number, rectangle, _grid(region.grid, after))


def _side(side: Span, before: Attribute, after: Attribute) -> Span:
    """A side that has the lower end of a domain has that of the wider one: events without a value lie there."""
    low, high = side
    if high < before.extent[0]:  # nothing was in it, and nothing is
        low = high = math.nextafter(after.extent[0], -math.inf)
    return _cut(low, before, after), high


def _cut(cut: float, before: Attribute, after: Attribute) -> float:
    """Whatever was not below a cut is not below it on the wider domain either, if that was everything."""
    lowest = before.extent[0]
    return min(cut, after.extent[0]) if cut <= lowest else cut

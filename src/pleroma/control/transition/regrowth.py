"""A plan change that leaves most of a tree as it is: where two trees differ, and how regions are made anew only there.

Below the nodes that differ, an event may have another dz; everywhere else it has the same dz in both trees. So outside
of these nodes a region keeps its members, and a registration that has nothing below them is not concerned at all. That
makes regions depend on how the tree came to be what it is, which is why snapshots hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pleroma.content import Filter
from pleroma.index import EVERYTHING, Dz, DzSet, Index, TreeIndex
from pleroma.index.tree_index import Bounds

MAX_AREA_CELLS = 8
"""If trees differ in more places, larger cells around these are taken. Each cell may cost every switch a rule."""


def differing(before: Index, after: Index, max_cells: int = MAX_AREA_CELLS) -> DzSet:
    """At most so many cells, outside of which both plans give every event the same dz."""
    if not isinstance(before, TreeIndex) or not isinstance(after, TreeIndex):
        return EVERYTHING
    return before.changed(after).coarsen(max(max_cells, 1))


@dataclass(frozen=True, slots=True)
class TreePart:
    """The tree below a node, and the cuts on the way to the node: (attribute, coordinate, whether it is above)."""

    tree: TreeIndex
    way: tuple[tuple[int, float, bool], ...]

    @classmethod
    def of(cls, index: TreeIndex, dz: Dz) -> TreePart:
        layout, node, way = index.layout, 0, []
        for place in range(dz.length - 1, -1, -1):
            above = bool(dz >> place & 1)
            way.append((index.dimensions[node], layout.cuts[node], above))
            node = layout.right[node] if above else node + 1
        return cls(index.subtree(dz), tuple(way))

    def is_met(self, bounds: Bounds) -> bool:
        """Whether a box reaches below the node."""
        first, last = bounds
        return all(last[d] >= cut if above else first[d] < cut for d, cut, above in self.way)


@dataclass(frozen=True, slots=True)
class Regrowth:
    """Turns regions of one tree into regions of another that differs from it in an area. Both are under a prefix."""

    index: TreeIndex
    """The tree to go to."""
    prefix: Dz
    area: DzSet
    max_members: int
    """How many members a region may have."""
    _parts: dict[Dz, TreePart] = field(default_factory=dict, compare=False, repr=False)

    def concerns(self, region: DzSet) -> bool:
        """Whether a region has anything in the area."""
        known = DzSet(region)  # a packed one would be read again and again
        return any(known.overlaps(cell) for cell in self.area)

    def region(self, now: DzSet, wanted: Filter) -> DzSet:
        """The region in the other tree of a filter that has the region `now` in this one.

        Outside of the area it has the same members. Inside, it has as many as are left; where there is no room for
        another member, a cell of the area that lies in a larger member stays in it.
        """
        known = DzSet(now)
        cells = [cell for cell in self.area if known.overlaps(cell)]
        inside = [dz for cell in cells for dz in self._cover(cell, wanted, self.max_members)]
        exact = known - DzSet(cells) | DzSet(inside)
        if len(exact) <= self.max_members:
            return exact
        spare = self.max_members - len(known)
        replaced: list[Dz] = []
        inside = []
        for cell in cells:
            held = sum(cell.covers(dz) for dz in known)
            if held:
                covering = self._cover(cell, wanted, held + spare)
                spare += held - len(covering)
                replaced.append(cell)
                inside += covering
        return known - DzSet(replaced) | DzSet(inside)

    def _cover(self, cell: Dz, wanted: Filter, max_members: int) -> DzSet:
        part = self._parts.get(cell)
        if part is None:
            below = 1 << cell.length - self.prefix.length
            part = self._parts[cell] = TreePart.of(self.index, Dz(cell & below - 1 | below))
        boxes = tuple(box for box in wanted.boxes if part.is_met(self.index.bounds(box.ranges)))
        return part.tree.cover(replace(wanted, boxes=boxes), max_members=max_members).under(cell)

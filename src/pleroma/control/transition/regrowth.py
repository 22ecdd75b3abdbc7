"""A change of plans that leaves most of a tree as it is: where the two differ, and regions made anew only there.

Below the nodes that differ an event may have another dz; everywhere else it has the same one in both trees. So a region
that was right stays right outside of them, with the very same members, and whoever wants nothing inside is not
concerned at all. That makes regions depend on how the tree came to be what it is, which is why snapshots hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pleroma.content import Filter
from pleroma.index import EVERYTHING, Dz, DzSet, Index, TreeIndex
from pleroma.index.tree_index import Bounds

MAX_AREA_CELLS = 8
"""A change that is in more places than this is taken to be in the nodes around them; each may cost a rule a switch."""


def differing(before: Index, after: Index, most: int = MAX_AREA_CELLS) -> DzSet:
    """Cells outside of which both plans give everything the same dz: at most so many."""
    if not isinstance(before, TreeIndex) or not isinstance(after, TreeIndex):
        return EVERYTHING
    return before.changed(after).coarsen(max(most, 1))


@dataclass(frozen=True, slots=True)
class TreePart:
    """What is below a node, and the cuts on the way to it: (attribute, coordinate, whether it is above)."""

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
        """Whether a box comes this far."""
        first, last = bounds
        return all(last[d] >= cut if above else first[d] < cut for d, cut, above in self.way)


@dataclass(frozen=True, slots=True)
class Regrowth:
    """From regions of one tree to those of another that differs in an area. Both are under a prefix."""

    index: TreeIndex
    """The tree to go to."""
    prefix: Dz
    area: DzSet
    most: int
    """How many members a region may have."""
    _parts: dict[Dz, TreePart] = field(default_factory=dict, compare=False, repr=False)

    def concerns(self, region: DzSet) -> bool:
        """Whether there is anything of it in the area."""
        known = DzSet(region)  # a packed one would be read again and again
        return any(known.overlaps(cell) for cell in self.area)

    def region(self, now: DzSet, wanted: Filter) -> DzSet:
        """The region in the other tree of a filter that has this one now.

        It has the same members outside the area. Inside, it has as many as that leaves; where there is no room for
        another member, a cell that lies in a larger one stays in it.
        """
        known = DzSet(now)
        cells = [cell for cell in self.area if known.overlaps(cell)]
        inside = [dz for cell in cells for dz in self._cover(cell, wanted, self.most)]
        exact = known - DzSet(cells) | DzSet(inside)
        if len(exact) <= self.most:
            return exact
        spare = self.most - len(known)
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

    def _cover(self, cell: Dz, wanted: Filter, most: int) -> DzSet:
        part = self._parts.get(cell)
        if part is None:
            below = 1 << cell.length - self.prefix.length
            part = self._parts[cell] = TreePart.of(self.index, Dz(cell & below - 1 | below))
        boxes = tuple(box for box in wanted.boxes if part.is_met(self.index.bounds(box.ranges)))
        return part.tree.cover(replace(wanted, boxes=boxes), max_members=most).under(cell)

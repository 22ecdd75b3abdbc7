"""What lies outside of many boxes, cut into slabs.

Along one dimension the ends of the boxes cut the space into slabs. In a slab only the boxes count that reach into it,
and what is outside of those is found in the same way along the dimensions that are left. Boxes that lie one behind the
other along some dimension are few in each slab there, so that hundreds of them take no more work for each than one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from pleroma.content.box import Box
from pleroma.content.range import Range, complement, join
from pleroma.content.work_budget import WorkBudget

_Ranges = tuple[Range, ...]


def outside(boxes: Sequence[Box], domain: Box, work: WorkBudget, most: int) -> list[Box] | None:
    """Boxes without overlaps that together are all of the domain but these; None if that takes more than `most`."""
    order = sorted(range(len(domain.ranges)), key=lambda d: _crowding(boxes, d))
    space = tuple(domain.ranges[d] for d in order)
    found = _Slabs(space, work, most).outside([tuple(box.ranges[d] for d in order) for box in boxes], 0)
    if found is None:
        return None
    places = [order.index(d) for d in range(len(order))]
    return [Box(tuple(ranges[place] for place in places)) for ranges in found]


def _crowding(boxes: Sequence[Box], d: int) -> int:
    """How many slabs the boxes reach into along a dimension, all of them together."""
    ends = sorted({end for box in boxes for end in box.ranges[d]})
    return sum(bisect_left(ends, box.ranges[d].hi) - bisect_left(ends, box.ranges[d].lo) for box in boxes)


class _Slabs:
    """The dimensions of `space` are cut in their order."""

    def __init__(self, space: _Ranges, work: WorkBudget, most: int) -> None:
        self._space = space
        self._work = work
        self._most = most

    def outside(self, boxes: Sequence[_Ranges], d: int) -> list[_Ranges] | None:
        """What is outside of the boxes in the dimensions from `d` on."""
        self._work.spend(1 + len(boxes))
        if not boxes:
            return [self._space[d:]]
        if d == len(self._space) - 1:
            return [(part,) for part in complement(join(ranges[d] for ranges in boxes), self._space[d])]
        slabs: list[tuple[Range, list[_Ranges]]] = []
        for along, inside in self._cut(boxes, d):
            rest = self.outside(inside, d + 1)
            if rest is None:
                return None
            if slabs and slabs[-1][1] == rest:
                slabs[-1] = Range(slabs[-1][0].lo, along.hi), rest
            else:
                slabs.append((along, rest))
        found = [(along, *ranges) for along, rest in slabs for ranges in rest]
        return found if len(found) <= self._most else None

    def _cut(self, boxes: Sequence[_Ranges], d: int) -> list[tuple[Range, list[_Ranges]]]:
        """The slabs along a dimension, each with the boxes that reach into it."""
        low, high = self._space[d]
        ends = sorted({low, high, *(end for ranges in boxes for end in ranges[d])})
        inside: list[list[_Ranges]] = [[] for _ in ends[1:]]
        for ranges in boxes:
            first, last = bisect_left(ends, ranges[d].lo), bisect_left(ends, ranges[d].hi)
            self._work.spend(last - first)
            for slab in range(first, last):
                inside[slab].append(ranges)
        return [(Range(*between), each) for between, each in zip(pairwise(ends), inside, strict=True)]

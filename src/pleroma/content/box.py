"""A box: one range per attribute. Filters are unions of boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pleroma.content.range import Key, Range, complement
from pleroma.content.work_budget import UNBOUNDED, WorkBudget


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """One range per attribute, in the schema's order."""

    ranges: tuple[Range, ...]

    def __contains__(self, keys: tuple[Key, ...]) -> bool:
        return all(lo <= key < hi for (lo, hi), key in zip(self.ranges, keys, strict=True))

    def covers(self, other: Box) -> bool:
        return all(lo <= a and b <= hi for (lo, hi), (a, b) in zip(self.ranges, other.ranges, strict=True))

    def overlaps(self, other: Box) -> bool:
        return all(lo < b and a < hi for (lo, hi), (a, b) in zip(self.ranges, other.ranges, strict=True))

    def meet(self, other: Box) -> Box | None:
        common = []
        for mine, its in zip(self.ranges, other.ranges, strict=True):
            part = mine.meet(its)
            if part is None:
                return None
            common.append(part)
        return Box(tuple(common))

    def minus(self, other: Box) -> Iterator[Box]:
        """What is in this box and not in the other, as disjoint boxes."""
        common = self.meet(other)
        if common is None:
            yield self
            return
        ranges = list(self.ranges)
        for d, (mine, shared) in enumerate(zip(self.ranges, common.ranges, strict=True)):
            for rest in complement((shared,), mine):
                yield Box((*ranges[:d], rest, *ranges[d + 1 :]))
            ranges[d] = shared

    def minus_all(self, others: Sequence[Box], work: WorkBudget = UNBOUNDED) -> Iterator[Box]:
        """What is in this box and in none of the others, found one disjoint piece at a time."""
        pieces = [(self, others)]
        while pieces:
            piece, near = pieces.pop()
            work.spend(1 + len(near))
            near = [other for other in near if other.overlaps(piece)]
            if not near:
                yield piece
            elif not any(other.covers(piece) for other in near):
                pieces.extend((rest, near[1:]) for rest in piece.minus(near[0]))

"""Half-open ranges over ordered keys, and sets of them.

Every attribute turns its values into keys of an ordered set in which each key has a known successor (the next
integer, the next double, the text followed by NUL). Then open and closed bounds alike become `[lo, hi)`, and
complement, intersection and containment are exact, with no case for each kind of bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

# int and float for numbers and positions in a list, bytes for text: one kind within an attribute, so comparable.
Key = Any


class Range(NamedTuple):
    """All keys `k` with `lo <= k < hi`."""

    lo: Key
    hi: Key

    def __contains__(self, key: object) -> bool:
        return bool(self.lo <= key < self.hi)

    def covers(self, other: Range) -> bool:
        return bool(self.lo <= other.lo and other.hi <= self.hi)

    def meet(self, other: Range) -> Range | None:
        """The common part, or None where there is none."""
        lo = self.lo if self.lo >= other.lo else other.lo
        hi = self.hi if self.hi <= other.hi else other.hi
        return Range(lo, hi) if lo < hi else None


Ranges = tuple[Range, ...]
"""Sorted and disjoint, with a gap between neighbours: one form for each set of keys."""


def join(ranges: Iterable[Range]) -> Ranges:
    """The union, in normal form."""
    joined: list[Range] = []
    for lo, hi in sorted(r for r in ranges if r.lo < r.hi):
        if joined and lo <= joined[-1].hi:
            if hi > joined[-1].hi:
                joined[-1] = Range(joined[-1].lo, hi)
        else:
            joined.append(Range(lo, hi))
    return tuple(joined)


def complement(ranges: Ranges, domain: Range) -> Ranges:
    """What of `domain` is in none of `ranges` (which lie inside it)."""
    rest: list[Range] = []
    start = domain.lo
    for lo, hi in ranges:
        if start < lo:
            rest.append(Range(start, lo))
        start = hi
    if start < domain.hi:
        rest.append(Range(start, domain.hi))
    return tuple(rest)


def common(sets: Iterable[Ranges], domain: Range) -> Ranges:
    """The keys of `domain` that are in each of these sets of ranges."""
    return complement(join(gap for ranges in sets for gap in complement(ranges, domain)), domain)

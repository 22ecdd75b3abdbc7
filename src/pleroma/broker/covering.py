"""Covering: of many filters, those that lie inside no other, the *outermost*.

Whoever subscribes to the outermost filters gets all that the others match too. When an outermost filter is removed, the
filters inside it are looked at again. Of equal filters, one is outermost.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from pleroma.content import Event, Filter, Key
from pleroma.content.work_budget import WorkBudget
from pleroma.errors import FilterTooCostly
from pleroma.matching.edge_filter import EdgeFilter

MAX_COVERING_WORK_UNITS = 30_000
"""What comparing a new filter with all others may take, about 30 ms. What is not known to lie inside another counts as
outermost, too: more is subscribed to than need be, and nothing is lost.
"""


class Covering:
    """Filters by name, all of one schema."""

    def __init__(self) -> None:
        self._outermost: dict[str, Filter] = {}
        self._edge = EdgeFilter[str]()
        """Of the outermost. A filter that covers another matches the other's corner, so only those need be compared."""
        self._corners = _Corners()
        self._inside: dict[str, tuple[str, Filter]] = {}
        """Filters that are not outermost, with the name of an outermost one that they lie inside."""
        self._held: dict[str, dict[str, None]] = {}
        """By the name of an outermost filter, the names of those that `_inside` has under it."""

    def __len__(self) -> int:
        return len(self._outermost) + len(self._inside)

    @property
    def outermost(self) -> Mapping[str, Filter]:
        return self._outermost

    def add(self, name: str, wanted: Filter) -> None:
        work = WorkBudget(MAX_COVERING_WORK_UNITS)
        for other in self._edge.wanting(_corner(wanted)):
            if _covers(self._outermost[other], wanted, work):
                self._inside[name] = other, wanted
                self._held[other][name] = None
                return
        held: dict[str, None] = {}
        within = self._corners.within(wanted)
        for other in [each for each in within if _covers(wanted, self._outermost[each], work)]:
            held.update(self._held[other], **{other: None})
            inner = self._take_out(other)
            self._inside[other] = name, inner
        for other in held:
            self._inside[other] = name, self._inside[other][1]
        self._held[name] = held
        self._outermost[name] = wanted
        self._edge.add(name, wanted)
        self._corners.add(name, wanted)

    def remove(self, name: str) -> None:
        inside = self._inside.pop(name, None)
        if inside is not None:
            del self._held[inside[0]][name]
        elif name in self._outermost:
            orphans = {each: self._inside.pop(each)[1] for each in self._held[name]}
            self._take_out(name)
            for each, wanted in orphans.items():
                self.add(each, wanted)

    def _take_out(self, name: str) -> Filter:
        wanted = self._outermost.pop(name)
        self._edge.remove(name)
        self._corners.remove(name, wanted)
        del self._held[name]
        return wanted


class _Corners:
    """One corner of each filter, sorted along every dimension: a filter inside a box has its corner in the box."""

    def __init__(self) -> None:
        self._along: list[list[tuple[Key, str]]] = []

    def add(self, name: str, wanted: Filter) -> None:
        corner = _corner(wanted).value_keys
        self._along = self._along or [[] for _ in corner]
        for line, key in zip(self._along, corner, strict=True):
            insort(line, (key, name))

    def remove(self, name: str, wanted: Filter) -> None:
        for line, key in zip(self._along, _corner(wanted).value_keys, strict=True):
            del line[bisect_left(line, (key, name))]

    def within(self, wanted: Filter) -> set[str]:
        """The names of filters that may lie inside this one, by the dimension that leaves the fewest."""
        found: set[str] = set()
        for box in wanted.boxes:
            lines = zip(self._along, box.ranges, strict=False)
            spans = [(line, bisect_left(line, (lo,)), bisect_left(line, (hi,))) for line, (lo, hi) in lines]
            if spans:
                line, first, end = min(spans, key=lambda span: span[2] - span[1])
                found.update(name for _, name in line[first:end])
        return found


def _covers(outer: Filter, inner: Filter, work: WorkBudget) -> bool:
    """Whether the outer filter covers the inner one, as far as can be said with the work that is left."""
    try:
        return outer.covers(inner, work)
    except FilterTooCostly:
        return False


def _corner(wanted: Filter) -> Event:
    return Event(wanted.schema, tuple(part.lo for part in wanted.boxes[0].ranges))

"""The exact filter at the edge, for one event at a time and in plain Python: which of many filters want it.

Along each attribute, the bounds of all boxes cut the domain into stretches; for each stretch there is one integer with
a bit for every box that asks for it. An event is then one binary search and one AND an attribute, however many boxes
there are. Newcomers wait in a short list that is looked through one by one, until that has cost as much as a new table.
Such tables grow with the square of the number of boxes, so thousands of filters go to the matching engine, if what it
needs is installed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pleroma.content import Box, Event, Filter

if TYPE_CHECKING:
    from pleroma.matching.filter_matcher import FilterMatcher

T = TypeVar("T", bound=Hashable)

MIN_CHANGES_FOR_TABLE = 16
"""A new table is made when more filters than this have come, or have left, since the last one was made."""
FILTERS_PER_CHANGE = 32
"""A new table is not made before one filter in so many has come, or has left."""
LOOKS_PER_FILTER = 4
"""A table takes about as long to make as looking at each filter so many times."""
MIN_ENGINE_FILTERS = 8192
"""From so many filters on, the engine is faster than a table, and far smaller."""


class EdgeFilter(Generic[T]):
    """Filters by owner, all of one schema; an owner has one."""

    def __init__(self) -> None:
        self._filters: dict[T, Filter] = {}
        self._newcomers: dict[T, Filter] = {}
        self._gone: set[T] = set()
        self._looks = 0
        self._table = _Table[T](())
        self._engine: FilterMatcher[T] | None = None

    def __len__(self) -> int:
        return len(self._filters)

    def __iter__(self) -> Iterator[T]:
        return iter(self._filters)

    def add(self, owner: T, wanted: Filter) -> None:
        """The owner wants this filter from now on, instead of the one it had."""
        self.remove(owner)
        self._filters[owner] = wanted
        if self._engine is not None:
            self._engine.add(owner, wanted)
            return
        self._newcomers[owner] = wanted
        if len(self._newcomers) > max(MIN_CHANGES_FOR_TABLE, len(self._filters) // FILTERS_PER_CHANGE):
            self._rebuild()

    def remove(self, owner: T) -> None:
        if self._filters.pop(owner, None) is None:
            return
        if self._engine is not None:
            self._engine.remove(owner)
            return
        if self._newcomers.pop(owner, None) is None:
            self._gone.add(owner)
            if len(self._gone) > max(MIN_CHANGES_FOR_TABLE, len(self._filters) // FILTERS_PER_CHANGE):
                self._rebuild()

    def _rebuild(self) -> None:
        """Put all filters into one new table, or into an engine where they are many."""
        if len(self._filters) >= MIN_ENGINE_FILTERS:
            self._engine = _engine(self._filters)
        self._table = _Table(self._filters.items() if self._engine is None else ())
        self._newcomers.clear()
        self._gone.clear()
        self._looks = 0

    def wanting(self, event: Event) -> list[T]:
        """The owners whose filters match."""
        if self._engine is not None:
            return self._engine.wanting(event)
        found = self._table.wanting(event.value_keys)
        if self._gone:
            found = [owner for owner in found if owner not in self._gone]
        if self._newcomers:
            found += [owner for owner, wanted in self._newcomers.items() if wanted.matches(event)]
            self._looks += len(self._newcomers)
            if self._looks > LOOKS_PER_FILTER * len(self._filters):
                self._rebuild()
        return found


def _engine(filters: dict[T, Filter]) -> FilterMatcher[T] | None:
    """An engine with these filters; None where numpy and numba are not installed."""
    try:
        from pleroma.matching.filter_matcher import FilterMatcher
    except ImportError:
        return None
    return FilterMatcher(next(iter(filters.values())).schema, filters.items())


class _Table(Generic[T]):
    """Boxes numbered from 0, and for each attribute the bits of the boxes between two bounds."""

    def __init__(self, filters: Iterable[tuple[T, Filter]]) -> None:
        boxes: list[Box] = []
        self.owners: list[T] = []
        self.single = True
        for owner, wanted in filters:
            self.single &= len(wanted.boxes) <= 1
            boxes += wanted.boxes
            self.owners += [owner] * len(wanted.boxes)
        dimensions = range(len(boxes[0].ranges)) if boxes else ()
        self.columns = [_column(boxes, d) for d in dimensions]

    def wanting(self, keys: tuple[Any, ...]) -> list[T]:
        if not self.columns:
            return []
        mask = -1
        for (bounds, masks), key in zip(self.columns, keys, strict=True):
            mask &= masks[bisect_right(bounds, key)]
            if not mask:
                return []
        found = []
        while mask:
            lowest = mask & -mask
            found.append(self.owners[lowest.bit_length() - 1])
            mask ^= lowest
        return found if self.single else list(dict.fromkeys(found))


def _column(boxes: list[Box], d: int) -> tuple[list[Any], list[int]]:
    """The sorted bounds along one attribute, and for each stretch before, between and behind them a bit for every box
    that asks for what lies there."""
    changes: dict[Any, int] = {}
    for number, box in enumerate(boxes):
        low, high = box.ranges[d]
        bit = 1 << number
        changes[low] = changes.get(low, 0) ^ bit
        changes[high] = changes.get(high, 0) ^ bit
    bounds = sorted(changes)
    masks = [0]
    for bound in bounds:
        masks.append(masks[-1] ^ changes[bound])
    return bounds, masks

"""Which subscription an unwanted event is due to: the cells in which each makes the network bring events.

The controller encloses each filter with cells, its cover. A client computes the same covers, but for a thousand filters
that takes seconds. So it covers one filter at a time, when it has nothing else to do. A subscription that is not
covered yet may be due for any event.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from pleroma.content import Event, Filter
from pleroma.errors import PleromaError
from pleroma.index import Index

T = TypeVar("T", bound=Hashable)


class WasteAttribution(Generic[T]):
    """Filters with their owners, under one plan. A cover has at most `max_members` cells."""

    def __init__(self, index: Index, max_members: int) -> None:
        self.index = index
        self._max_members = max_members
        self._uncovered: dict[T, Filter] = {}
        self._owners: dict[int, dict[T, None]] = {}
        """By cell, in the order in which they were covered."""

    def add(self, owner: T, wanted: Filter) -> None:
        self._uncovered[owner] = wanted

    def remove(self, owner: T) -> None:
        if self._uncovered.pop(owner, None) is not None:
            return
        for cell in [cell for cell, owners in self._owners.items() if owner in owners]:
            del self._owners[cell][owner]
            if not self._owners[cell]:
                del self._owners[cell]

    def cover_next(self) -> bool:
        """Find the cells of one filter; False if all are covered."""
        if not self._uncovered:
            return False
        owner, wanted = next(iter(self._uncovered.items()))
        del self._uncovered[owner]
        try:
            cover = self.index.cover(wanted, max_members=self._max_members)
        except PleromaError:  # the plan has no cells for this filter, so the network brings nothing for it
            return True
        for cell in cover:
            self._owners.setdefault(int(cell), {})[owner] = None
        return True

    def culprit(self, event: Event) -> T | None:
        """An owner whose filter makes the network bring this event; None if there is none."""
        for dz in self.index.dzs(event):
            code = int(dz)
            while code:
                if (owners := self._owners.get(code)) is not None:
                    return next(iter(owners))
                code >>= 1
        return next(iter(self._uncovered), None)

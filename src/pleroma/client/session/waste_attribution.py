"""Whose fault an unwanted event is: the cells by which each subscription makes the network bring events.

The controller encloses a filter with cells, and so can a client, but for a thousand filters that takes seconds. So it
is done one filter at a time, when there is time. Until its cells are known, a subscription is under suspicion.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from pleroma.content import Event, Filter
from pleroma.errors import PleromaError
from pleroma.index import Index

T = TypeVar("T", bound=Hashable)


class WasteAttribution(Generic[T]):
    def __init__(self, index: Index, members: int) -> None:
        self.index = index
        self._members = members
        self._pending: dict[T, Filter] = {}
        self._owners: dict[int, dict[T, None]] = {}
        """By cell, in the order in which they came."""

    def add(self, owner: T, wanted: Filter) -> None:
        self._pending[owner] = wanted

    def remove(self, owner: T) -> None:
        if self._pending.pop(owner, None) is not None:
            return
        for cell in [cell for cell, owners in self._owners.items() if owner in owners]:
            del self._owners[cell][owner]
            if not self._owners[cell]:
                del self._owners[cell]

    def settle(self) -> bool:
        """Find the cells of one subscription; False if those of all are known."""
        if not self._pending:
            return False
        owner, wanted = next(iter(self._pending.items()))
        del self._pending[owner]
        try:
            cover = self.index.cover(wanted, max_members=self._members)
        except PleromaError:  # a plan that has no cells for this filter brings nothing
            return True
        for cell in cover:
            self._owners.setdefault(int(cell), {})[owner] = None
        return True

    def culprit(self, event: Event) -> T | None:
        """One that makes the network bring this event, if any does."""
        for dz in self.index.dzs(event):
            code = int(dz)
            while code:
                if (owners := self._owners.get(code)) is not None:
                    return next(iter(owners))
                code >>= 1
        return next(iter(self._pending), None)

"""Registrations that lie inside a cell which their own host has registered as a whole. They change no table.

They are counted, because they matter again when the host withdraws the cell. After a restart there may be hundreds of
thousands of dz in one cell: these stay packed as they were loaded, and later changes are kept beside them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter

from pleroma.index.dz import Dz
from pleroma.index.dzset import PACKED_BYTES, DzSet, packed


class CoveredByOwn:
    """A multiset of dz: the registrations of one holder inside one cell."""

    __slots__ = ("_changes", "_loaded")

    def __init__(self, loaded: bytes = b"") -> None:
        """`loaded` holds packed dz, sorted."""
        self._loaded = loaded
        self._changes: dict[Dz, int] = {}

    def count(self, dz: Dz) -> int:
        return self._changes.get(dz, 0) + (self._loaded_count(dz) if self._loaded else 0)

    def change(self, dz: Dz, by: int) -> None:
        now = self._changes.get(dz, 0) + by
        if now:
            self._changes[dz] = now
        else:
            del self._changes[dz]

    def all(self) -> dict[Dz, int]:
        """How often each dz is registered."""
        counts = Counter(DzSet.unpack(self._loaded)) if self._loaded else Counter()
        counts.update(self._changes)
        return {dz: count for dz, count in counts.items() if count}

    def _loaded_count(self, dz: Dz) -> int:
        places, wanted = range(len(self._loaded) // PACKED_BYTES), packed(dz)
        first = bisect_left(places, wanted, key=self._at)
        return bisect_right(places, wanted, lo=first, key=self._at) - first

    def _at(self, place: int) -> bytes:
        return self._loaded[place * PACKED_BYTES : (place + 1) * PACKED_BYTES]

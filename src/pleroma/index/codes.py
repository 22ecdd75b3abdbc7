"""The dz of many events at once: left-aligned in unsigned words, so that a prefix is an interval of codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from pleroma.arrays.types import Ints, Words
from pleroma.index.dz import Dz

WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Codes:
    """One row per dz, one column per 64 bits (at least one), most significant first.

    An event has one dz, and so the same row, unless `events` says of which event each row is.
    """

    words: Words
    bits: int
    events: Ints | None = None

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def of_event(self, given: NDArray[Any]) -> NDArray[Any]:
        """What is known by event, by row."""
        return given if self.events is None else given[self.events]

    def dz_of(self, rows: Iterable[int]) -> list[Dz]:
        return [self.dz(int(row)) for row in rows]

    def dz(self, row: int) -> Dz:
        value = 0
        for word in self.words[row]:
            value = value << WORD_BITS | int(word)
        return Dz(1 << self.bits | value >> self.words.shape[1] * WORD_BITS - self.bits)

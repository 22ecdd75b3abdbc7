"""Many boxes, compared with one box at once.

Along each dimension the boxes are sorted by their two ends. The boxes that begin before a key, or end behind one, are
then a set that is known beforehand, kept as the bits of an integer. Of these sets, two for each
dimension concern a box: what they have in common are the boxes that are asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pleroma.content.box import Box
from pleroma.content.range import Key


class _Axis(NamedTuple):
    """The ends of the boxes along one dimension: `begun[i]` has a bit for each box that begins below `lows[i]`, and
    `ending[i]` one for each that ends at `highs[i]` or above.
    """

    dimension: int
    lows: list[Key]
    highs: list[Key]
    begun: list[int]
    ending: list[int]


class BoxMasks:
    """Bit `i` of a mask stands for `boxes[i]`."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.boxes = boxes
        self._all = (1 << len(boxes)) - 1
        dimensions = range(len(boxes[0].ranges)) if boxes else ()
        self._axes = [_axis(boxes, d) for d in dimensions]

    def around(self, box: Box) -> int:
        """The mask of the boxes that cover this box."""
        found = self._all
        for d, lows, highs, begun, ending in self._axes:
            low, high = box.ranges[d]
            found &= begun[bisect_right(lows, low)] & ending[bisect_left(highs, high)]
        return found

    def meeting(self, box: Box) -> int:
        """The mask of the boxes that overlap this box."""
        found = self._all
        for d, lows, highs, begun, ending in self._axes:
            low, high = box.ranges[d]
            found &= begun[bisect_left(lows, high)] & ending[bisect_right(highs, low)]
        return found

    def of(self, mask: int) -> Iterator[Box]:
        """The boxes of a mask, in their order."""
        while mask:
            lowest = mask & -mask
            yield self.boxes[lowest.bit_length() - 1]
            mask ^= lowest


def _axis(boxes: Sequence[Box], d: int) -> _Axis:
    beginning: dict[Key, int] = {}
    stopping: dict[Key, int] = {}
    bit = 1
    for box in boxes:
        low, high = box.ranges[d]
        beginning[low] = beginning.get(low, 0) | bit
        stopping[high] = stopping.get(high, 0) | bit
        bit <<= 1
    lows, highs = sorted(beginning), sorted(stopping)
    begun = [0]
    for low in lows:
        begun.append(begun[-1] | beginning[low])
    ending = [0]
    for high in reversed(highs):
        ending.append(ending[-1] | stopping[high])
    ending.reverse()
    return _Axis(d, lows, highs, begun, ending)

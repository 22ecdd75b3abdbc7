"""Sets of subscriptions as rows of bits: one row for each distinct cell of a dimension, one bit for each box.

Whether an event and a box agree in several dimensions is then an AND of rows, and how many boxes do is a popcount, for
64 boxes at a time. Events in the same cell share a row, so that nothing of the size events x subscriptions is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints, Words
from pleroma.evaluation.sample import Sample


@dataclass(frozen=True, slots=True, eq=False)
class BitRows:
    """`rows[of_event[e]]` has the bits of the boxes that meet the cell of event e."""

    rows: Words
    of_event: Ints

    @classmethod
    def of(cls, cells: Ints, first: Ints, last: Ints) -> BitRows:
        """Events in these cells, boxes that meet the cells from `first` to `last`, both included."""
        seen, of_event = np.unique(cells, return_inverse=True)
        begin = np.searchsorted(seen, first, side="left")
        end = np.searchsorted(seen, last, side="right")
        return cls(filled(len(seen), begin, end), of_event.astype(np.int64))


def exact_rows(sample: Sample, d: int) -> BitRows:
    """Along one dimension, exactly: between two neighbouring bounds of boxes, all values are alike."""
    bounds = np.unique(np.concatenate([sample.low[:, d], sample.high[:, d]]))

    def stretch(values: Floats) -> Ints:
        return np.searchsorted(bounds, values, side="right").astype(np.int64)

    return BitRows.of(stretch(sample.keys[:, d]), stretch(sample.low[:, d]), stretch(sample.high[:, d]) - 1)


@compiled
def filled(count: int, begin: Ints, end: Ints) -> Words:
    """Row r has bit b where begin[b] <= r < end[b]: bits are switched on and off, and each row continues the last."""
    boxes = begin.shape[0]
    rows = np.zeros((count, max((boxes + 63) >> 6, 1)), np.uint64)
    for box in range(boxes):
        if begin[box] < end[box]:
            bit = np.uint64(1) << np.uint64(box & 63)
            rows[begin[box], box >> 6] ^= bit
            if end[box] < count:
                rows[end[box], box >> 6] ^= bit
    for row in range(1, count):
        for word in range(rows.shape[1]):
            rows[row, word] ^= rows[row - 1, word]
    return rows


@compiled
def popcount(word: np.uint64) -> Int:
    """The number of set bits, in a form that compilers know as one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def common(rows: Words, index: Ints, owner: Ints, single: bool) -> Int:
    """The deliveries: for all events, the owners of the boxes that all rows of the event have in common.

    `index` has the rows of an event. With `single`, every owner has one box and a popcount is enough; otherwise the
    boxes of an owner stand together, and each owner counts once.
    """
    total: Int = 0
    words = rows.shape[1]
    for event in range(index.shape[0]):
        last = -1
        for word in range(words):
            bits = rows[index[event, 0], word]
            for d in range(1, index.shape[1]):
                bits &= rows[index[event, d], word]
            if single:
                total += popcount(bits)
                continue
            while bits:
                lowest = bits & (~bits + np.uint64(1))
                box = (word << 6) + popcount(lowest - np.uint64(1))
                if owner[box] != last:
                    last = owner[box]
                    total += 1
                bits ^= lowest
    return total


def stacked(parts: list[BitRows]) -> tuple[Words, Ints]:
    """Rows of several dimensions in one array, and for each event where its row of each dimension is."""
    offsets = np.cumsum([0, *(len(part.rows) for part in parts)])[:-1]
    index = np.column_stack([part.of_event + offset for part, offset in zip(parts, offsets, strict=True)])
    return np.concatenate([part.rows for part in parts]), np.ascontiguousarray(index)

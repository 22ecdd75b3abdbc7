"""Batches with a selective index: the grid of each region encodes the events in it, behind the region's number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Marks, Words
from pleroma.errors import DomainError
from pleroma.index.codes import WORD_BITS, Codes
from pleroma.index.dz import Dz

if TYPE_CHECKING:
    from pleroma.index.selective_index import SelectiveIndex


def encode(index: SelectiveIndex, points: Floats) -> Codes:
    if points.ndim != 2 or points.shape[1] != len(index.schema):
        raise DomainError(f"a batch has {len(index.schema)} columns, not shape {points.shape}", field="points")
    wrong = np.argwhere(~np.isfinite(points))
    if len(wrong):
        row, d = wrong[0].tolist()
        value = float(points[row, d])
        raise DomainError(f"{value} in row {row} is no point", field=index.schema.attributes[d].name, value=value)
    words = max(1, -(-index.bits // WORD_BITS))
    rows = [np.flatnonzero(taken) for taken in taken_by(index, points)]
    pairs = zip(index.regions, rows, strict=True)
    parts = [_behind(region.number, region.grid.encode(points[taken]).words, words) for region, taken in pairs]
    events = np.concatenate(rows)
    order = np.argsort(events, kind="stable")
    one_each = len(events) == len(points) and not index.repeated
    return Codes(np.concatenate(parts)[order], index.bits, None if one_each else events[order])


def taken_by(index: SelectiveIndex, points: Floats) -> Iterator[Marks]:
    """For each region, the events that are sent in it."""
    left = np.ones(len(points), np.bool_)
    for region in index.regions:
        if region.rectangle is None:
            yield left & (not index.quiet)
        else:
            held = region.rectangle.holding(points)
            yield held if index.repeated else held & left
            left &= ~held


def homes_of(index: SelectiveIndex, first: Floats, last: Floats) -> Marks:
    """`SelectiveIndex.homes` for many boxes: by region and box, whether it has to be covered there."""
    sides = [region.rectangle.sides for region in index.regions if region.rectangle is not None]
    low, high = np.array(sides, np.float64).reshape(len(sides), len(index.schema), 2).transpose(2, 0, 1).copy()
    return _homes(low, high, first, last, index.repeated)


@compiled
def _homes(low: Floats, high: Floats, first: Floats, last: Floats, repeated: bool) -> Marks:
    rectangles = low.shape[0]
    found = np.zeros((rectangles + 1, first.shape[0]), np.bool_)
    for box in range(first.shape[0]):
        fits = False
        if repeated:
            for r in range(rectangles):
                if (low[r] <= first[box]).all() and (last[box] <= high[r]).all():
                    found[r, box] = fits = True
                    break
        if fits:
            continue
        for r in range(rectangles + 1):
            begin, end = first[box].copy(), last[box].copy()
            if r < rectangles:
                begin, end = np.maximum(begin, low[r]), np.minimum(end, high[r])
            meets = (begin <= end).all()
            for earlier in range(r):
                if not meets:
                    break
                meets = (begin < low[earlier]).any() or (end > high[earlier]).any()
            found[r, box] = meets
    return found


def _behind(number: Dz, codes: Words, words: int) -> Words:
    """Left-aligned codes moved to the right by the length of a number, which takes their place."""
    made = np.zeros((len(codes), words), np.uint64)
    skipped, shift = divmod(number.length, WORD_BITS)
    for word in range(codes.shape[1]):
        if word + skipped < words:
            made[:, word + skipped] |= codes[:, word] >> np.uint64(shift)
        if shift and word + skipped + 1 < words:
            made[:, word + skipped + 1] |= codes[:, word] << np.uint64(WORD_BITS - shift)
    aligned = number.start << 2 * WORD_BITS - 112
    for word in range(words):
        made[:, word] |= np.uint64(aligned >> WORD_BITS * (1 - word) & 2**WORD_BITS - 1)
    return made

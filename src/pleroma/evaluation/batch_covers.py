"""The covers of many subscriptions by grids, as rows of dz: the members of `Index.cover`, without an object for each.

A grid covers one subscription after the other in compiled code. A selective index does so region by region, with a
share of the allowed members in each, and then coarsens each subscription's cover to the allowed members, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints
from pleroma.errors import ContentError, PlanError
from pleroma.evaluation.grid_evaluator import cells
from pleroma.evaluation.sample import Sample
from pleroma.index import Dz, GridIndex, SelectiveIndex
from pleroma.index.axis import Axis
from pleroma.index.coarsening_kernels import coarsened
from pleroma.index.cover_kernels import HALF_CODE_BITS, BitOrder, Boxes, cover
from pleroma.index.dz_rows import DzRows, joined
from pleroma.index.grid_tables import kernel_limit
from pleroma.index.selective_codes import homes_of

_LOW = np.uint64((1 << 48) - 1)
_LENGTH = np.uint64(0xFFFF)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class BatchCovers:
    """The cover of owner i: rows `first[i]` to `first[i + 1]`, sorted."""

    rows: DzRows
    first: Ints

    def of(self, owner: int) -> DzRows:
        return self.rows[self.first[owner] : self.first[owner + 1]]

    @property
    def owner(self) -> Ints:
        """The owner of each row."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


def covered(index: GridIndex | SelectiveIndex, sample: Sample, max_members: int | None = None) -> BatchCovers:
    """The covers of a sample's owners. The boxes of an owner stand together."""
    if index.schema != sample.schema:
        raise ContentError(f"the filters are of schema {sample.schema.name!r}, the index of {index.schema.name!r}")
    most = kernel_limit(max_members)
    if most < 1:
        raise PlanError("a cover needs at least one member", value=max_members)
    if isinstance(index, GridIndex):
        return _of_grid(index, sample, np.full(sample.owners, most, np.int64))
    homes = homes_of(index, sample.first, sample.last)
    inside = np.zeros((len(index.regions), sample.owners), np.bool_)
    for at, boxes in enumerate(homes):
        inside[at, sample.owner[boxes]] = True
    regions = inside.sum(axis=0)
    # as the index does: twice as many as may stay, so that the limit takes from where it costs least
    share = np.where(regions > 1, -(-2 * most // np.maximum(regions, 1)), most)
    parts = []
    for region, boxes in zip(index.regions, homes, strict=True):
        if boxes.any():
            found = _of_grid(region.grid, sample.boxes_alone(boxes), share)
            parts.append(BatchCovers(_behind(region.number, found.rows), found.first))
    if not parts:
        return BatchCovers(np.zeros((0, 2), np.uint64), firsts(np.zeros(sample.owners)))
    rows, owner = np.concatenate([part.rows for part in parts]), np.concatenate([part.owner for part in parts])
    counts = np.bincount(owner, minlength=sample.owners)
    return BatchCovers(*_limited(rows[np.argsort(owner, kind="stable")], firsts(counts), most))


def _of_grid(grid: GridIndex, sample: Sample, most: Ints) -> BatchCovers:
    """Owner i has at most `most[i]` members."""
    boxes = firsts(np.bincount(sample.owner, minlength=sample.owners))
    if not grid.axes:
        some = np.diff(boxes) > 0
        return BatchCovers(np.zeros((int(some.sum()), 2), np.uint64), firsts(some))
    low = np.column_stack([_cells(axis, sample.first[:, d]) for d, axis in grid.axes.items()])
    high = np.column_stack([_cells(axis, sample.last[:, d]) for d, axis in grid.axes.items()])
    return BatchCovers(*_covers(grid.tables.bit_order, low, high, boxes, most))


def _cells(axis: Axis, values: Floats) -> Ints:
    return np.minimum(cells(axis, values), (1 << axis.bits) - 1)


def firsts(counts: Any) -> Ints:
    """By owner, where its rows begin, and behind the last, where they end."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _behind(number: Dz, rows: DzRows) -> DzRows:
    """Cells moved behind the bits of a region's number."""
    shift = np.uint64(number.length)
    high, low = rows[:, 0], rows[:, 1] >> np.uint64(16)
    if number.length:
        low = (low >> shift | high << (np.uint64(64) - shift) >> np.uint64(16)) & _LOW
        high = high >> shift
    first = number.start
    high = high | np.uint64(first >> 48)
    low = low | np.uint64(first & int(_LOW))
    return np.column_stack([high, low << np.uint64(16) | (rows[:, 1] & _LENGTH) + shift])


@compiled
def _row(high: np.int64, low: np.int64) -> tuple[np.uint64, np.uint64]:
    """A code in two words of `HALF` bits, with its leading 1, as a row."""
    length = -1
    while (
        high >> np.int64(length + 1 - HALF_CODE_BITS)
        if length + 1 >= HALF_CODE_BITS
        else high | low >> np.int64(length + 1)
    ) != 0:
        length += 1
    a, b = np.uint64(high), np.uint64(low)
    left = 2 * HALF_CODE_BITS - length
    half, full = np.uint64(HALF_CODE_BITS), (_ONE << np.uint64(HALF_CODE_BITS)) - _ONE
    if left >= HALF_CODE_BITS:
        a, b = b, np.uint64(0)
        left -= HALF_CODE_BITS
        a = a << np.uint64(left) & full
    else:
        a = (a << np.uint64(left) | b >> (half - np.uint64(left))) & full
        b = b << np.uint64(left) & full
    return a << np.uint64(8) | b >> np.uint64(48), (b & _LOW) << np.uint64(16) | np.uint64(length)


@compiled
def _sort(rows: DzRows, first: int, end: int) -> None:
    part = rows[first:end].copy()
    order = np.argsort(part[:, 0], kind="mergesort")
    for i in range(order.shape[0]):
        high, low = part[order[i], 0], part[order[i], 1]
        at = first + i
        while at > first and rows[at - 1, 0] == high and rows[at - 1, 1] > low:
            rows[at, 0], rows[at, 1] = rows[at - 1, 0], rows[at - 1, 1]
            at -= 1
        rows[at, 0], rows[at, 1] = high, low


@compiled
def _covers(grid: BitOrder, low: Ints, high: Ints, boxes: Ints, most: Ints) -> tuple[DzRows, Ints]:
    owners = boxes.shape[0] - 1
    rows = np.empty((1024, 2), np.uint64)
    first = np.zeros(owners + 1, np.int64)
    count = 0
    for owner in range(owners):
        a, b = boxes[owner], boxes[owner + 1]
        if a < b:
            found = cover(grid, Boxes(low[a:b], high[a:b]), grid.order.shape[0], most[owner])
            while count + found.shape[0] > rows.shape[0]:
                larger = np.empty((2 * rows.shape[0], 2), np.uint64)
                larger[:count] = rows[:count]
                rows = larger
            for i in range(found.shape[0]):
                rows[count + i, 0], rows[count + i, 1] = _row(found[i, 0], found[i, 1])
            _sort(rows, count, count + found.shape[0])
            count = joined(rows, count, count + found.shape[0])
        first[owner + 1] = count
    return rows[:count].copy(), first


@compiled
def _limited(rows: DzRows, first: Ints, most: int) -> tuple[DzRows, Ints]:
    """Each owner's cells merged to the members of a region, which is then coarsened to at most so many."""
    count = 0
    firsts = np.zeros_like(first)
    for owner in range(first.shape[0] - 1):
        begin, end = first[owner], first[owner + 1]
        _sort(rows, begin, end)
        end = joined(rows, begin, end)
        if end - begin > most:
            kept = coarsened(rows[begin:end], most)
            rows[begin : begin + kept.shape[0]] = kept
            end = begin + kept.shape[0]
        rows[count : count + end - begin] = rows[begin:end].copy()
        count += end - begin
        firsts[owner + 1] = count
    return rows[:count].copy(), firsts

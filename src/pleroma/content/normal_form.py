"""The normal form of a union of boxes: no box inside another, neighbours joined, sorted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from pleroma.content.box import Box
from pleroma.content.box_masks import BoxMasks
from pleroma.content.range import Range, join
from pleroma.content.work_budget import WorkBudget

_COMPARED_ONE_BY_ONE = 6
"""So few boxes are compared faster without preparing anything."""


def normal(boxes: Iterable[Box], work: WorkBudget) -> tuple[Box, ...]:
    pieces = list(islice(boxes, work.max_pieces + 1))
    if len(pieces) > work.max_pieces:
        raise work.too_large()
    if len(pieces) < 2:
        return tuple(pieces)
    current = sorted(set(pieces))
    if len(current) < 2:
        return tuple(current)
    dimensions = range(len(current[0].ranges))
    while True:
        work.spend(2 * len(current) * len(dimensions))
        before = current
        for d in dimensions:
            current = _joined_along(current, d)
        current = sorted(_outermost(current, work))
        if current == before:
            return tuple(current)


def _joined_along(boxes: list[Box], d: int) -> list[Box]:
    """Boxes that differ only in dimension `d`, and touch there, become one."""
    if len(boxes) < 2:
        return boxes
    alike: dict[tuple[Range, ...], list[Range]] = defaultdict(list)
    for box in boxes:
        alike[box.ranges[:d] + box.ranges[d + 1 :]].append(box.ranges[d])
    if len(alike) == len(boxes):
        return boxes
    return [Box((*rest[:d], part, *rest[d:])) for rest, parts in alike.items() for part in join(parts)]


def _outermost(boxes: list[Box], work: WorkBudget) -> list[Box]:
    """The boxes inside no other. All boxes are different.

    Sorted by their lower corners, and the larger first of those that share one, no box comes before one around it. So
    they are taken in blocks, each compared with itself and with what was kept before.
    """
    if len(boxes) <= _COMPARED_ONE_BY_ONE:
        return [box for box in boxes if sum(other.covers(box) for other in boxes) == 1]
    size = work.max_boxes
    if len(boxes) > size:
        boxes = sorted(boxes, key=lambda box: [part.hi for part in box.ranges], reverse=True)
        boxes.sort(key=lambda box: [part.lo for part in box.ranges])
    kept: list[Box] = []
    for begin in range(0, len(boxes), size):
        block = boxes[begin : begin + size]
        masks = BoxMasks([*kept, *block])
        kept += [box for i, box in enumerate(block, len(kept)) if masks.around(box) == 1 << i]
        if len(kept) > size:
            raise work.too_large()
    return kept

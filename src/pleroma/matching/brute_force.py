"""Exact matching without an index over filters: events are sorted along one attribute, each box looks at a stretch.

Nothing is approximated and there is little to get wrong, so this is what all other matching is measured against.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints, Marks
from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError


def wanted_by(groups: Sequence[Sequence[Filter]], events: EventBatch) -> Marks:
    """Group by event: whether at least one filter of the group matches."""
    check_schemas(groups, events)
    keys = events.ordinals()
    boxes = [[events.bounds(box) for each in group for box in each.boxes] for group in groups]
    bounds = [np.array(group, np.float64).reshape(-1, keys.shape[1], 2) for group in boxes]
    lead = _narrowest(keys, np.concatenate(bounds)) if bounds else 0
    order = np.argsort(keys[:, lead], kind="stable")
    keys = keys[order]
    wanted = np.zeros((len(groups), len(events)), np.bool_)

    def mark(bounds: Floats, row: Marks) -> None:
        low, high = np.ascontiguousarray(bounds[:, :, 0]), np.ascontiguousarray(bounds[:, :, 1])
        first = np.searchsorted(keys[:, lead], low[:, lead])
        last = np.searchsorted(keys[:, lead], high[:, lead])
        _mark(keys, first, last, low, high, row)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(mark, bounds, wanted))
    found = np.empty_like(wanted)
    found[:, order] = wanted
    return found


def check_schemas(groups: Sequence[Sequence[Filter]], events: EventBatch) -> None:
    for each in (f for group in groups for f in group):
        if each.schema is not events.schema and each.schema != events.schema:
            reason = f"the events are of schema {events.schema.name!r}, a filter of {each.schema.name!r}"
            raise ContentError(reason)


def _narrowest(keys: Floats, bounds: Floats) -> int:
    """The attribute along which the boxes hold the fewest events."""
    held = [
        np.searchsorted(column, bounds[:, d, 1]).sum() - np.searchsorted(column, bounds[:, d, 0]).sum()
        for d, column in enumerate(np.sort(keys.T, axis=1))
    ]
    return int(np.argmin(held))


@compiled
def _mark(keys: Floats, first: Ints, last: Ints, low: Floats, high: Floats, wanted: Marks) -> None:
    for box in range(low.shape[0]):
        for event in range(first[box], last[box]):
            inside = True
            for d in range(keys.shape[1]):
                if keys[event, d] < low[box, d] or keys[event, d] >= high[box, d]:
                    inside = False
                    break
            if inside:
                wanted[event] = True

"""Exact matching without an index over filters: every box looks at the events that its narrowest range lets through.

Nothing is approximated and there is little to get wrong, so this is what all other matching is measured against.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError
from pleroma.index.kernels import Floats, Ints, compiled


def wanted_by(groups: Sequence[Sequence[Filter]], events: EventBatch) -> NDArray[np.bool_]:
    """Group by event: whether at least one filter of the group matches."""
    for each in (f for group in groups for f in group):
        if each.schema is not events.schema and each.schema != events.schema:
            reason = f"the events are of schema {events.schema.name!r}, a filter of {each.schema.name!r}"
            raise ContentError(reason)
    keys = events.ordinals()
    order = np.argsort(keys.T, axis=1, kind="stable")
    columns = np.take_along_axis(keys.T, order, axis=1)
    wanted = np.zeros((len(groups), len(events)), np.bool_)

    def mark(group: Sequence[Filter], row: NDArray[np.bool_]) -> None:
        boxes = [events.bounds(box) for each in group for box in each.boxes]
        if boxes:
            bounds = np.array(boxes, np.float64)
            low, high = np.ascontiguousarray(bounds[:, :, 0]), np.ascontiguousarray(bounds[:, :, 1])
            _mark(keys, columns, order, low, high, row)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(mark, groups, wanted))
    return wanted


@compiled
def _mark(keys: Floats, columns: Floats, order: Ints, low: Floats, high: Floats, wanted: NDArray[np.bool_]) -> None:
    """`columns` are the keys of each attribute, sorted; `order` says which event each belongs to."""
    for box in range(low.shape[0]):
        narrowest, first, last = 0, 0, keys.shape[0] + 1
        for d in range(keys.shape[1]):
            a = np.searchsorted(columns[d], low[box, d])
            b = np.searchsorted(columns[d], high[box, d])
            if b - a < last - first:
                narrowest, first, last = d, a, b
        for place in range(first, last):
            event = order[narrowest, place]
            if wanted[event]:
                continue
            inside = True
            for d in range(keys.shape[1]):
                if keys[event, d] < low[box, d] or keys[event, d] >= high[box, d]:
                    inside = False
                    break
            wanted[event] = inside

"""Brute force, compiled: every event against every box, leaving a box at the first attribute that does not fit.

Nothing is indexed and nothing is approximated, so this is what all other matching is measured against.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError
from pleroma.index.kernels import Floats, compiled


def wanted_by(groups: Sequence[Sequence[Filter]], events: EventBatch) -> NDArray[np.bool_]:
    """Group by event: whether at least one filter of the group matches."""
    keys = events.ordinals()
    wanted = np.zeros((len(groups), len(events)), np.bool_)
    for group, row in zip(groups, wanted, strict=True):
        for each in group:
            if each.schema is not events.schema and each.schema != events.schema:
                reason = f"the events are of schema {events.schema.name!r}, a filter of {each.schema.name!r}"
                raise ContentError(reason)
        boxes = [events.bounds(box) for each in group for box in each.boxes]
        if boxes:
            bounds = np.array(boxes, np.float64)
            _mark(keys, np.ascontiguousarray(bounds[:, :, 0]), np.ascontiguousarray(bounds[:, :, 1]), row)
    return wanted


@compiled
def _mark(keys: Floats, low: Floats, high: Floats, wanted: NDArray[np.bool_]) -> None:
    for event in range(keys.shape[0]):
        for box in range(low.shape[0]):
            inside = True
            for d in range(keys.shape[1]):
                key = keys[event, d]
                if key < low[box, d] or key >= high[box, d]:
                    inside = False
                    break
            if inside:
                wanted[event] = True
                break

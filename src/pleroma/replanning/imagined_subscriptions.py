"""Subscriptions as they might come next: like one that is there, somewhere else in the traffic.

Programs of one kind subscribe alike: to as wide a range of the same attributes, around other values. So a box of a
subscription is moved to where an event is. Ranges that are open to one side, and categories, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pleroma.content import Attribute, Box, Category, Filter, Range, Text
from pleroma.content.batch import EventBatch

IMAGINED_SUBSCRIPTIONS = 1_000


def imagined_subscriptions(
    known: Sequence[Filter], events: EventBatch, count: int = IMAGINED_SUBSCRIPTIONS, seed: int = 0
) -> list[Filter]:
    """None where there is nothing to go by."""
    boxes = [box for each in known for box in each.boxes]
    if not boxes or not len(events):
        return []
    random = np.random.default_rng([seed, 6])
    schema, found = events.schema, []
    for box, row in zip(random.integers(0, len(boxes), count), random.integers(0, len(events), count), strict=True):
        keys, ranges = events.event(int(row)).value_keys, boxes[int(box)].ranges
        moved = map(_moved, schema.attributes, ranges, keys, random.random(len(keys)).tolist())
        found.append(Filter(schema, (Box(tuple(moved)),)))
    return found


def _moved(attribute: Attribute, part: Range, key: Any, place: float) -> Range:
    """A range as wide as another, with a key at a place in it, from 0 to 1."""
    low, high = attribute.present
    if key not in attribute.present or isinstance(attribute, Category):
        return part
    if isinstance(attribute, Text):
        is_word = isinstance(part.lo, bytes) and part.hi == part.lo + b"\0"
        return Range(key, key + b"\0") if is_word else part
    if part.lo <= low or part.hi >= high:
        return part
    width = part.hi - part.lo
    begin = key - place * width
    begin = max(begin if isinstance(key, float) else round(begin), low)
    return Range(begin, min(begin + width, high)) if begin < min(begin + width, high) else part

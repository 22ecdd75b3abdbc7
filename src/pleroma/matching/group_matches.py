"""Which groups of filters want which events, exactly: what an evaluation compares deliveries with.

The engine is asked for some events at a time, so that its answers fit into memory. Where filters and events are few,
all pairs are compared sooner than an engine is built.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from pleroma.arrays.types import Marks
from pleroma.content import Box, Filter
from pleroma.content.batch import EventBatch
from pleroma.matching import brute_force
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.engine import Engine

MIN_ENGINE_PAIRS = 100_000_000
"""Pairs of a filter and an event for which an engine does not pay."""
EVENTS_PER_PIECE = 2048
"""Events asked at a time."""


def wanted_by(groups: Sequence[Sequence[Filter]], events: EventBatch, few: int = MIN_ENGINE_PAIRS) -> Marks:
    """Group by event: whether at least one filter of the group matches."""
    if sum(map(len, groups)) * len(events) < few:
        return brute_force.wanted_by(groups, events)
    brute_force.check_schemas(groups, events)
    table = _table(groups, events)
    engine = Engine()
    engine.add_all(table)
    wanted = np.zeros((len(groups), len(events)), np.bool_)
    points = events.ordinals()
    for start in range(0, len(events), EVENTS_PER_PIECE):
        found = engine.match_batch(Occurrences.dense(points[start : start + EVENTS_PER_PIECE]), os.cpu_count() or 1)
        rows = np.repeat(np.arange(start, start + len(found)), np.diff(found.ends, prepend=0))
        wanted[table.interfaces[found.ids], rows] = True
    return wanted


def _table(groups: Sequence[Sequence[Filter]], events: EventBatch) -> ConstraintTable:
    """A row for each box that some event could be in, its group for an interface."""
    boxes = [(group, box) for group, filters in enumerate(groups) for each in filters for box in each.boxes]
    width = len(events.schema)
    whole = np.array(events.bounds(Box(tuple(a.domain for a in events.schema.attributes))), np.float64)
    bounds = np.array([events.bounds(box) for _, box in boxes], np.float64).reshape(-1, width, 2)
    possible = (bounds[:, :, 0] < bounds[:, :, 1]).all(axis=1)
    bounds = bounds[possible]
    asked = (bounds[:, :, 0] > whole[:, 0]) | (bounds[:, :, 1] < whole[:, 1])
    first = np.concatenate(([0], np.cumsum(asked.sum(axis=1))))
    interfaces = np.array([group for group, _ in boxes], np.int32)[possible]
    low, high = bounds[:, :, 0][asked], bounds[:, :, 1][asked]
    return ConstraintTable.of(np.arange(len(bounds)), first, np.nonzero(asked)[1], low, high, interfaces)

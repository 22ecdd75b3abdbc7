"""Subscriptions and events drawn from a model, a whole column at a time.

Each subscription and each event is made from one row of random numbers. The same seed therefore gives the same
workload, and a larger one begins with the subscriptions of the smaller.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from pleroma.arrays.types import Floats, Ints, Marks
from pleroma.content import Box, Filter, Integer, Range, Schema
from pleroma.content.batch import EventBatch
from pleroma.workloads.hotspot_layout import HotspotLayout
from pleroma.workloads.model import Model
from pleroma.workloads.workload import Workload


def generate(model: Model) -> Workload:
    """A workload drawn from a model; the same model gives the same workload."""
    d = model.dimensions
    schema = Schema("synthetic", tuple(Integer(f"d{i}", False, model.low, model.high) for i in range(d)))
    layout = HotspotLayout.of(model)
    first, width = _boxes(model, layout)
    keys = _inside(model, layout, first, width) if model.placement == "inside" else _independent(model, layout)
    events = EventBatch(schema, tuple(np.ascontiguousarray(keys[:, i]) for i in range(d)))
    return Workload(schema, events, _filters(schema, first, first + width), _description(model, layout))


def hotspots_of_subscriptions(model: Model) -> Ints:
    """The rank of each subscription's hotspot; 0 is the most popular (Bhowmik et al. 2017, V-B.1)."""
    return _buckets(HotspotLayout.of(model), _draws(model, "subscriptions")[:, 0])


def _boxes(model: Model, layout: HotspotLayout) -> tuple[Ints, Ints]:
    """The first value and the number of values that each subscription asks for in each dimension."""
    d, size = model.dimensions, model.high - model.low + 1
    draws = _draws(model, "subscriptions")
    equal = _equal(layout, draws)
    centres = _values(layout, draws, equal)
    share = draws[:, 1 + d : 1 + 2 * d].copy()
    _follow(share, layout, equal, mirrored=False)
    # evenly around the mean, and never wider than the domain
    play = np.minimum(layout.widths / 2, 1 - layout.widths)
    width = np.clip(np.rint((layout.widths + play * (2 * share - 1)) * size), 1, size)
    # a box that would stick out of the domain is moved inside, so that it keeps its width
    first = np.clip(np.rint(centres * size - width / 2), 0, size - width)
    return model.low + first.astype(np.int64), width.astype(np.int64)


def _independent(model: Model, layout: HotspotLayout) -> Ints:
    draws = _draws(model, "events")
    size = model.high - model.low + 1
    values = _values(layout, draws, _equal(layout, draws))
    return model.low + np.minimum(values * size, size - 1).astype(np.int64)


def _inside(model: Model, layout: HotspotLayout, first: Ints, width: Ints) -> Ints:
    """A random place inside a random subscription; correlated dimensions have correlated places."""
    draws = _draws(model, "events")
    chosen = (draws[:, 0] * len(first)).astype(np.int64)
    places = draws[:, 1 : 1 + model.dimensions].copy()
    _follow(places, layout, _equal(layout, draws), mirrored=layout.mirrored)
    return first[chosen] + np.minimum((places * width[chosen]).astype(np.int64), width[chosen] - 1)


def _draws(model: Model, of: str) -> Floats:
    """A row per subscription or event: the bucket, a place and a width per dimension, equality per pair."""
    rows, stream = (model.subscriptions, 1) if of == "subscriptions" else (model.events, 2)
    d = model.dimensions
    return np.random.default_rng([model.seed, stream]).random((rows, 1 + 2 * d + d // 2))


def _buckets(layout: HotspotLayout, draws: Floats) -> Ints:
    found = np.searchsorted(np.cumsum(layout.popularity), draws, side="right")
    return np.minimum(found, len(layout.popularity) - 1).astype(np.int64)


def _equal(layout: HotspotLayout, draws: Floats) -> Marks:
    """Row by pair: whether the second dimension of the pair has the value of the first."""
    d = layout.reach.size
    return draws[:, 1 + 2 * d :][:, : len(layout.pairs)] < np.array(layout.strengths)


def _values(layout: HotspotLayout, draws: Floats, equal: Marks) -> Floats:
    """Points in the buckets, as shares of the domain."""
    bucket = layout.places[_buckets(layout, draws[:, 0])]
    place = draws[:, 1 : 1 + layout.reach.size].copy()
    _follow(bucket, layout, equal, mirrored=layout.mirrored)
    _follow(place, layout, equal, mirrored=layout.mirrored)
    return (1 - layout.reach) * bucket + layout.reach * place


def _follow(columns: Floats, layout: HotspotLayout, equal: Marks, *, mirrored: bool) -> None:
    """Copy, where equal, the first column of each correlated pair to the second."""
    for pair, (first, second) in enumerate(layout.pairs):
        leading = 1 - columns[:, first] if mirrored else columns[:, first]
        np.copyto(columns[:, second], leading, where=equal[:, pair])


def _filters(schema: Schema, lower: Ints, upper: Ints) -> tuple[Filter, ...]:
    rows = zip(lower.tolist(), upper.tolist(), strict=True)
    return tuple(Filter(schema, (Box(tuple(map(Range, low, high))),)) for low, high in rows)


def _description(model: Model, layout: HotspotLayout) -> dict[str, Any]:
    return {
        "kind": "synthetic",
        "settings": asdict(model),
        "drawn": {
            "reach": layout.reach.tolist(),
            "widths": layout.widths.tolist(),
            "pairs": [list(pair) for pair in layout.pairs],
            "strengths": list(layout.strengths),
            "hotspots": layout.centres.tolist() if model.distribution == "zipfian" else [],
        },
    }

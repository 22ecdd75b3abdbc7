"""What some events add to a window: where their values lie, and what a plan makes of them at the hosts.

A packet comes to a host once, however many of its subscriptions ask for it. So deliveries, and those of them that are
wanted, are counted by host, as if none of the hosts had published the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pleroma.content import Text
from pleroma.content.batch import EventBatch
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.shared_dz import SharedDz
from pleroma.index import DzSet, Index
from pleroma.index.dz_rows import packed
from pleroma.replanning.situation import PlacedFilter
from pleroma.replanning.windows import HISTOGRAM_BINS, MetricKey


def value_counts(events: EventBatch) -> dict[MetricKey, int]:
    """How many events there are, and in which bins of the histograms their values lie."""
    counts = {MetricKey("events"): len(events)}
    points = events.points()
    for d, attribute in enumerate(events.schema.attributes):
        low, high = attribute.extent
        scaled = (points[:, d] - low) / (high - low if high > low else 1.0) * HISTOGRAM_BINS
        bins = np.clip(scaled, 0, HISTOGRAM_BINS - 1).astype(np.int64)
        column = events.columns[d]
        absent: Any = None if isinstance(attribute, Text) else attribute.absent
        bins[np.asarray(column == absent, np.bool_)] = HISTOGRAM_BINS
        for place, n in enumerate(np.bincount(bins, minlength=HISTOGRAM_BINS + 1).tolist()):
            counts[MetricKey("histogram", d, place)] = n
    return counts


def delivery_counts(
    index: Index, placed: Sequence[PlacedFilter], covers: Sequence[DzSet], events: EventBatch
) -> dict[MetricKey, int]:
    """What an index and the covers of some subscriptions make of events at the hosts; `covers[i]` is of `placed[i]`."""
    number: dict[str, int] = {}
    homes = np.array([number.setdefault(each.host, len(number)) for each in placed], np.int64)
    sample = Sample.of(events, [each.filter for each in placed])
    rows = [packed(each) for each in covers]
    shared = SharedDz.of(np.concatenate(rows), np.repeat(homes, [len(each) for each in rows]))
    return {
        MetricKey("deliveries"): shared.deliveries(index.encode(sample.points)),
        MetricKey("wanted"): GridEvaluator(sample.grouped(homes), 1).wanted,
        MetricKey("pairs"): sample.events * sample.boxes,
        **{MetricKey("matched", d): n for d, n in enumerate(_matched(sample))},
    }


def _matched(sample: Sample) -> list[int]:
    """By dimension: the number of pairs (event, box) in which the event's value lies in the box's range."""
    order = np.sort(sample.keys, axis=0)
    return [
        int((np.searchsorted(order[:, d], sample.high[:, d]) - np.searchsorted(order[:, d], sample.low[:, d])).sum())
        for d in range(order.shape[1])
    ]

"""A workload in a few numbers: how far events spread in each dimension, how much subscriptions ask for and get.

Variance and width are what dimension selection weighs (Bhowmik et al. 2018, IV; Grunert 2014, ch. 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pleroma.content import Attribute, Category, Filter, Text, Timestamp
from pleroma.content.batch import Column
from pleroma.content.range import join
from pleroma.workloads.workload import Workload

MAX_MATCHED_EVENTS = 20_000
"""Matches are counted on at most so many events, taken evenly from all."""


@dataclass(frozen=True, slots=True)
class AttributeSummary:
    """What events and subscriptions do with one attribute."""

    name: str
    domain: str
    least: bool | int | float | str | None
    most: bool | int | float | str | None
    distinct: int
    variance: float | None
    """Of the events' values; None where they are not numbers."""
    width: float | None
    """The mean share of the domain that subscriptions ask for; None for text, which has no end."""
    limited: float
    """The share of subscriptions that ask for less than everything."""


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """A workload in a few numbers."""

    events: int
    subscriptions: int
    attributes: tuple[AttributeSummary, ...]
    counted: int
    """How many events were matched with all subscriptions for the numbers that follow."""
    matches: float
    """Subscriptions that want an event, on average."""
    most_matches: int
    unwanted: float
    """The share of events that nobody wants."""


def summarise(workload: Workload, advance: Callable[[float], None] = lambda _: None) -> WorkloadSummary:
    """The summary; `advance` is told of each subscription that has been counted."""
    pairs = zip(workload.schema.attributes, workload.events.columns, strict=True)
    attributes = tuple(
        _attribute(d, attribute, column, workload.subscriptions) for d, (attribute, column) in enumerate(pairs)
    )
    events = len(workload.events)
    sample = workload.events[:: max(1, -(-events // MAX_MATCHED_EVENTS))]
    wanted = np.zeros(len(sample), np.int64)
    for subscription in workload.subscriptions:
        wanted += sample.matches(subscription)
        advance(1)
    return WorkloadSummary(
        events=events,
        subscriptions=len(workload.subscriptions),
        attributes=attributes,
        counted=len(sample),
        matches=_mean(wanted) or 0.0,
        most_matches=int(wanted.max(initial=0)),
        unwanted=_mean(wanted == 0) or 0.0,
    )


def _attribute(d: int, attribute: Attribute, column: Column, subscriptions: tuple[Filter, ...]) -> AttributeSummary:
    texts = isinstance(attribute, Text)
    present = column[column != (None if texts else attribute.absent)]
    distinct = sorted(set(present.tolist()))
    ends = (distinct[0], distinct[-1]) if distinct else (None, None)
    least, most = ends if texts or not distinct else map(attribute.json_value, ends)
    numbers = distinct and not isinstance(attribute, (Category, Text, Timestamp))
    return AttributeSummary(
        name=attribute.name,
        domain=attribute.describe(),
        least=least,
        most=most,
        distinct=len(distinct),
        variance=_mean(np.square(present - present.mean())) if numbers else None,
        width=None if texts else _mean([_share(d, attribute, each) for each in subscriptions]),
        limited=_mean([_limits(d, attribute, each) for each in subscriptions]) or 0.0,
    )


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _share(d: int, attribute: Attribute, filter: Filter) -> float:
    """How much of one dimension the filter's boxes take together."""
    low, high = attribute.extent
    parts = join(part for box in filter.boxes if (part := box.ranges[d].meet(attribute.present)) is not None)
    if low == high:
        return float(bool(parts))
    return float(sum(min(hi, high) - lo for lo, hi in parts) / (high - low))


def _limits(d: int, attribute: Attribute, filter: Filter) -> bool:
    return not any(box.ranges[d].covers(attribute.domain) for box in filter.boxes)

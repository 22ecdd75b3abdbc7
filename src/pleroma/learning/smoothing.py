"""Smoothing a sample: points where traffic may come that the sample does not show, of less weight than events.

A tree soon has fewer events in a leaf than subscriptions, and then it fits the sample and not the traffic. Points
between neighbouring events stand for events that might as well have been seen; points anywhere in a subscription keep
subscriptions apart where no event was. Which helps depends on the traffic: that is tried on events set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import frexp, ldexp
from typing import NamedTuple

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.evaluation.sample import Sample

MAX_NEIGHBOURS = 24
"""At most so many events are in one neighbourhood."""
MAX_EXTRA_POINTS = 60_000
"""Scale of how many points a smoothing adds."""
WEIGHT_BITS = 20
"""Weights of points have so many significant bits, so that sums of them are exact."""
FLOOR_SHARE = 0.02
"""What points inside subscriptions weigh together, as a share of the events, where traffic need not be like them."""


class WeightedPoints(NamedTuple):
    points: Floats
    weight: Floats


Smoothing = Callable[[Sample, np.random.Generator], WeightedPoints]


def between_neighbours(sample: Sample, random: np.random.Generator, share: float, count: int) -> WeightedPoints:
    """About `count` points on the lines between events of one neighbourhood.

    Neighbourhoods come from halving the events at the median of their widest dimension, again and again. Where there
    are very many events, some of them are enough.
    """
    used = random.permutation(sample.events)[: MAX_EXTRA_POINTS // 3]
    points, cell = sample.points[used], _neighbourhoods(sample.scaled()[used])
    order = np.argsort(cell, kind="stable")
    partner = np.empty_like(order)
    made = []
    for _ in range(max(min(count // len(points), MAX_NEIGHBOURS), 1)):
        partner[order] = np.lexsort((random.random(len(points)), cell))
        made.append(points + random.random((len(points), 1)) * (points[partner] - points))
    return _weighted(np.concatenate(made), share * len(points))


def _neighbourhoods(scaled: Floats) -> Ints:
    """By point: the number of its neighbourhood."""
    cell = np.zeros(len(scaled), np.int64)
    stack = [np.arange(len(scaled))]
    found = 0
    while stack:
        group = stack.pop()
        if len(group) > MAX_NEIGHBOURS:
            spread = np.ptp(scaled[group], axis=0)
            middle = len(group) // 2
            parted = group[np.argpartition(scaled[group, int(np.argmax(spread))], middle)]
            stack += [parted[:middle], parted[middle:]]
        else:
            cell[group] = found
            found += 1
    return cell


def inside_subscriptions(sample: Sample, random: np.random.Generator, share: float, count: int) -> WeightedPoints:
    if not sample.boxes:
        return _weighted(sample.points[:0], 0.0)
    box = random.integers(0, sample.boxes, count)
    place = random.random((count, sample.points.shape[1]))
    return _weighted(sample.first[box] + place * (sample.last[box] - sample.first[box]), share * sample.events)


def weight_of_each(total: float, count: int) -> float:
    """The weight of each of `count` points, rounded to `WEIGHT_BITS` bits: sums are then the same in any order."""
    digits, exponent = frexp(total / max(count, 1))
    return ldexp(round(ldexp(digits, WEIGHT_BITS)), exponent - WEIGHT_BITS)


def _weighted(points: Floats, total: float) -> WeightedPoints:
    return WeightedPoints(points, np.full(len(points), weight_of_each(total, len(points))))


def _joined(*parts: WeightedPoints) -> WeightedPoints:
    return WeightedPoints(np.concatenate([p.points for p in parts]), np.concatenate([p.weight for p in parts]))


def _as_seen(sample: Sample, random: np.random.Generator) -> WeightedPoints:
    return _joined(
        _seen(sample), inside_subscriptions(sample, random, FLOOR_SHARE, min(2 * sample.events, MAX_EXTRA_POINTS))
    )


def _neighbours(sample: Sample, random: np.random.Generator) -> WeightedPoints:
    near = between_neighbours(sample, random, 2.0, 2 * MAX_EXTRA_POINTS)
    floor = inside_subscriptions(sample, random, FLOOR_SHARE, min(2 * sample.events, MAX_EXTRA_POINTS))
    return _joined(_seen(sample), near, floor)


def _both(sample: Sample, random: np.random.Generator) -> WeightedPoints:
    near = between_neighbours(sample, random, 4.0, MAX_EXTRA_POINTS)
    return _joined(_seen(sample), near, inside_subscriptions(sample, random, 8.0, 2 * MAX_EXTRA_POINTS))


def _subscriptions(sample: Sample, random: np.random.Generator) -> WeightedPoints:
    count = 4 * MAX_EXTRA_POINTS - min(sample.events, 2 * MAX_EXTRA_POINTS)
    return _joined(_seen(sample), inside_subscriptions(sample, random, 8.0, count))


def _seen(sample: Sample) -> WeightedPoints:
    return WeightedPoints(sample.points, np.ones(sample.events))


SMOOTHINGS: Mapping[str, Smoothing] = {
    "as seen": _as_seen,
    "neighbours": _neighbours,
    "neighbours and subscriptions": _both,
    "subscriptions": _subscriptions,
}

"""How far traffic has moved away from the traffic that a plan was made from.

Drift along an attribute is the Jensen-Shannon distance between two histograms: 0 for the same shares, 1 where no bin
has events of both. What two samples of the same traffic may differ by chance is subtracted, so that short windows do
not look like changes. The attribute that moved furthest decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pleroma.replanning.windows import TrafficWindow, merged


def distance(one: Sequence[int], other: Sequence[int]) -> float:
    """Between two histograms, from 0 to 1; 0 where one of them is empty."""
    n, m = sum(one), sum(other)
    if not n or not m:
        return 0.0
    divergence, used = 0.0, 0
    for a, b in zip(one, other, strict=True):
        p, q = a / n, b / m
        if p or q:
            used += 1
            divergence += (_term(p, (p + q) / 2) + _term(q, (p + q) / 2)) / 2
    # of two samples of one population the divergence, for small differences the sum of (p - q)**2 / 8p, is chi-square
    # distributed with a degree of freedom less than there are bins: its mean and two standard deviations
    freedom = used - 1
    chance = (freedom + 2 * math.sqrt(2 * freedom)) / (8 * math.log(2)) * (1 / n + 1 / m)
    return math.sqrt(min(max(divergence - chance, 0.0), 1.0))


def _term(share: float, mean: float) -> float:
    return share * math.log2(share / mean) if share else 0.0


def by_attribute(reference: TrafficWindow, now: TrafficWindow) -> dict[str, float]:
    """The distance along each attribute."""
    pairs = zip(reference.counts, now.counts, strict=True)
    return {name: distance(*pair) for name, pair in zip(now.attributes, pairs, strict=True)}


def drift(reference: TrafficWindow | None, now: TrafficWindow) -> float | None:
    """The largest distance along any attribute; None where there is nothing to compare with."""
    if reference is None or reference.attributes != now.attributes or not reference.events or not now.events:
        return None
    return max(by_attribute(reference, now).values())


def alike(windows: Sequence[TrafficWindow], max_windows: int, limit: float) -> list[TrafficWindow]:
    """The newest windows, back to the first that drifted by the limit: what a plan for today's traffic is made from."""
    found: list[TrafficWindow] = []
    for each in reversed(windows[-max_windows:]):
        if each.events:
            like = merged(found)
            if like is not None and (drift(like, each) or 0.0) >= limit:
                break
            found.append(each)
    return found[::-1]

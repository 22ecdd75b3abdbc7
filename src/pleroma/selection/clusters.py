"""Groups of similar subscriptions, and the rectangles around them (Bhowmik et al. 2018, III-A).

Boxes are parted again and again where that leaves the least room in the rectangles around the two parts; which group
is parted next is decided by how much it gains. The sizes of rectangles are taken as logarithms, since halving one is
worth a bit to every subscription in it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from pleroma.arrays.types import Floats, Ints
from pleroma.evaluation.sample import Sample
from pleroma.index import Rectangle

THIN_SIDE = 2.0**-10
"""Added to the width of every side, as a share of its dimension: thinner rectangles are not worth more bits."""


def rectangles(sample: Sample, max_rectangles: int) -> Iterator[list[Rectangle]]:
    """The rectangles around one group, two groups, three, as long as parting a group gains, up to `max_rectangles`."""
    low, high = np.array([a.extent for a in sample.schema.attributes], np.float64).T
    size = np.where(high > low, high - low, 1.0)
    first, last = (sample.first - low) / size, (sample.last - low) / size
    groups: dict[int, Ints] = {}
    due: list[tuple[float, int]] = []
    parted: dict[int, tuple[Ints, Ints]] = {}
    names = iter(range(2 * max_rectangles))

    def add(group: Ints) -> None:
        name = next(names)
        groups[name] = group
        gain, *both = _part(first[group], last[group])
        if gain > 0.0:
            parted[name] = group[both[0]], group[both[1]]
            heapq.heappush(due, (-gain, name))

    if sample.boxes:
        add(np.arange(sample.boxes))
    while groups:
        yield [_around(sample, group) for group in groups.values()]
        if not due or len(groups) == max_rectangles:
            return
        name = heapq.heappop(due)[1]
        del groups[name]
        for part in parted.pop(name):
            add(part)


def _around(sample: Sample, group: Ints) -> Rectangle:
    low, high = sample.first[group].min(axis=0), sample.last[group].max(axis=0)
    return Rectangle(tuple(zip(low.tolist(), high.tolist(), strict=True)))


def _part(first: Floats, last: Floats) -> tuple[float, Ints, Ints]:
    """The best way to part boxes in two, by position or by width in some dimension, and what that gains in bits."""
    count, dims = first.shape
    best: tuple[float, Ints, Ints] = (0.0, np.arange(count), np.arange(0))
    if count < 2:
        return best
    whole = count * float(_room(first.min(axis=0), last.max(axis=0)))
    sizes = np.arange(1, count)
    for d in range(dims):
        for key in (first[:, d] + last[:, d], last[:, d] - first[:, d]):
            order = np.argsort(key, kind="stable")
            below = _room(np.minimum.accumulate(first[order]), np.maximum.accumulate(last[order]))
            above = _room(np.minimum.accumulate(first[order][::-1]), np.maximum.accumulate(last[order][::-1]))[::-1]
            cost = sizes * below[:-1] + (count - sizes) * above[1:]
            at = int(np.argmin(cost))
            gain = whole - float(cost[at])
            if gain > best[0] + 1e-9:
                best = gain, order[: at + 1], order[at + 1 :]
    return best


def _room(low: Floats, high: Floats) -> Floats:
    """The size of rectangles, in bits."""
    return np.asarray(np.log2(high - low + THIN_SIDE).sum(axis=-1))

"""Which cut of a node is best, from what its events weigh in every bin and the boxes that meet it.

What a node delivers is the weight of its events times the groups of subscriptions that meet it. Since at first every
group meets every node, a share of the boxes counts as well: they say which cut will help later.

The cut that saves most at once halves a node; one that leaves a cheap side and a dear one saves less now and more after
the cuts to come, since those will be made where it is dear. That is what `prospect` counts, as long as there are bits
enough for the cuts to come: unequal halves make long paths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints

MAX_BINS = 256
"""Where a node has more cuts along a dimension, neighbouring ones are counted together."""
SPARE_BITS = 5
"""So many more bits than its leaves will need has a node that is cut for what it will cost in the end."""

Ranks = NDArray[np.int32]


@compiled
def best_of(
    weights: Floats,
    offset: Ints,
    bins: Ints,
    shift: Ints,
    low: Ints,
    high: Ints,
    boxes: Ranks,
    first: Ranks,
    last: Ranks,
    group: Ranks,
    least: Ranks,
    most: Ranks,
    seen: Ints,
    tick: Ints,
    share: float,
    patient: bool,
) -> tuple[float, Int, Int]:
    """The best cut of a node: what it saves, its dimension and the last rank on the lower side.

    Dimension d has `bins[d]`, none if it cannot be cut. Each has `1 << shift[d]` ranks, the first from `low[d]` on; the
    weight of the node's events in them begins at `weights[offset[d]]`.
    """
    starts = np.empty(MAX_BINS)
    ends = np.empty(MAX_BINS)
    touched = np.empty(boxes.shape[0], np.int32)
    best, best_gain, best_d, best_k = 0.0, 0.0, np.int64(-1), np.int64(0)
    for d in range(first.shape[0]):
        if bins[d] == 0:
            continue
        a, span, by = low[d], high[d] - low[d], shift[d]
        starts[: bins[d]] = 0
        ends[: bins[d]] = 0
        met = count_boxes(
            first[d], last[d], group, boxes, a, span, by, share, least, most, seen, tick, touched, starts, ends
        )
        mass = weights[offset[d] : offset[d] + bins[d]]
        value, gain, j = best_cut(mass, starts[: bins[d]], ends[: bins[d]], met, patient, best)
        if j >= 0:
            best, best_gain, best_d, best_k = value, gain, np.int64(d), a + (j + 1 << by) - 1
    return best_gain, best_d, best_k


@compiled
def best_cut(
    weights: Floats, starts: Floats, ends: Floats, met: float, patient: bool, least: float
) -> tuple[float, float, Int]:
    """The best cut behind a bin of one dimension: how good it is, what it saves, and the bin.

    From the weight of events in every bin, what begins and what ends there, and what is met in all. The bin is -1 where
    no cut is better than `least`.
    """
    total = weights.sum()
    cost = total * met
    best, best_gain, best_j = least, 0.0, np.int64(-1)
    below, here, gone = 0.0, 0.0, 0.0
    for j in range(weights.shape[0] - 1):
        if weights[j] == 0.0 and starts[j] == 0.0 and ends[j] == 0.0:
            continue  # as good as the one before
        below += weights[j]
        here += starts[j]
        gone += ends[j]
        lower, upper = below * here, (total - below) * (met - gone)
        gain = cost - lower - upper
        if gain <= 1e-9 * cost:  # what is left of rounding is no gain
            continue
        value = gain
        if patient:
            value = prospect(cost) - prospect(lower) - prospect(upper)
            if value <= 0.0:
                value = 1e-12 * gain
        if value > best * (1.0 + 1e-9):
            best, best_gain, best_j = value, gain, np.int64(j)
    return best, best_gain, best_j


@compiled
def prospect(cost: float) -> float:
    """What a node counts that will be cut further.

    With n leaves, a node that costs c comes down to about c n**-a, and leaves best shared out over nodes of several
    costs bring their sum down to that of the c**(1 / (1 + a)), to the power of 1 + a. For boxes in several dimensions,
    a is about 1/7.
    """
    return float(cost / np.sqrt(np.sqrt(np.sqrt(cost)))) if cost > 0.0 else 0.0


@compiled
def can_wait(cost: float, whole: float, leaves: Int, bits: Int) -> bool:
    """Whether a node has bits to spare, if it gets that share of the leaves that it costs of the whole."""
    return bool(leaves > 0 and bits >= SPARE_BITS and leaves * cost <= 2.0 ** (bits - SPARE_BITS) * whole)


@compiled
def count_boxes(
    first: Ranks,
    last: Ranks,
    group: Ranks,
    boxes: Ranks,
    low: Int,
    span: Int,
    shift: Int,
    share: float,
    least: Ranks,
    most: Ranks,
    seen: Ints,
    tick: Ints,
    touched: Ranks,
    starts: Floats,
    ends: Floats,
) -> float:
    """Add to the bins, along one dimension of a node, where boxes and groups of them begin and end; how many count."""
    single = seen.shape[0] == group.shape[0]  # every box is its own group, which is the common case
    each = 1.0 if single else share
    for box in boxes:
        starts[max(first[box] - low, 0) >> shift] += each
        ends[min(last[box] - low, span) >> shift] += each
    met = float(each * boxes.shape[0])
    if not single:
        groups = _spans(first, last, group, boxes, least, most, seen, tick, touched)
        met += groups
        for mine in touched[:groups]:
            starts[max(least[mine] - low, 0) >> shift] += 1.0
            ends[min(most[mine] - low, span) >> shift] += 1.0
    return met


@compiled
def _spans(
    first: Ranks,
    last: Ranks,
    group: Ranks,
    boxes: Ranks,
    least: Ranks,
    most: Ranks,
    seen: Ints,
    tick: Ints,
    touched: Ranks,
) -> Int:
    """From where to where each group reaches along one dimension; how many groups there are."""
    tick[0] += 1
    found = 0
    for box in boxes:
        mine = group[box]
        if seen[mine] != tick[0]:
            seen[mine] = tick[0]
            touched[found] = mine
            found += 1
            least[mine], most[mine] = first[box], last[box]
        else:
            least[mine] = min(least[mine], first[box])
            most[mine] = max(most[mine], last[box])
    return found


@compiled
def met_by(group: Ranks, boxes: Ranks, seen: Ints, tick: Ints, share: float) -> float:
    """How many groups these boxes are of, and that share of the boxes."""
    if seen.shape[0] == group.shape[0]:
        return float(boxes.shape[0])
    tick[0] += 1
    found = 0
    for box in boxes:
        if seen[group[box]] != tick[0]:
            seen[group[box]] = tick[0]
            found += 1
    return float(found + share * boxes.shape[0])

"""The best cut of a node, from the weight of its events in every bin and from the boxes that meet it.

What a node delivers is the weight of its events times the number of groups (subscribers) whose boxes meet it. Since at
first every group meets every node, a share of the boxes counts as well: they show which cut will help later.

The cut that saves most at once halves a node. One that leaves a cheap side and a dear one saves less now and more after
the cuts to come, since those will be made where it is dear. That is what `prospect` counts, as long as there are bits
enough for the cuts to come: unequal halves make long paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Int, Ints

MAX_BINS = 256
"""Where a node has more candidate cuts along a dimension, neighbouring ones are counted together in a bin."""
SPARE_BITS = 5
"""A node that is cut for what it will cost in the end has so many more bits than its leaves will need."""

Ranks = NDArray[np.int32]
"""A coordinate's rank is the number of candidate cuts at or below it. Numbers of boxes have this type too."""


class RankedBoxes(NamedTuple):
    """All boxes, as ranks."""

    first: Ranks
    """By dimension and box: the rank at which the box begins."""
    last: Ranks
    """By dimension and box: the rank at which it ends, which is still inside."""
    group: Ranks
    """By box: the subscriber it belongs to."""
    share: float
    """What a box counts beside its group, which counts 1."""


class CutScratch(NamedTuple):
    """Memory that is used again for every node, so that none of it has to be allocated anew."""

    grouped: bool
    """Whether some groups have several boxes. Mostly, every box is its own group."""
    seen: Ints
    """By group: the `tick` at which it was met last."""
    tick: Ints
    """One number, which is another for every set of boxes that is looked at."""
    least: Ranks
    """By group: the first rank of its boxes."""
    most: Ranks
    """By group: the last rank of its boxes."""
    touched: Ranks
    """The groups that some boxes belong to, each once."""
    starts: Floats
    """By bin: the boxes and groups that begin there."""
    ends: Floats
    """By bin: the boxes and groups that end there."""


class BinnedNode(NamedTuple):
    """A node, and the weight of its events in bins along every dimension.

    Dimension d has `bins[d]` bins, none if it cannot be cut. Each has `1 << shift[d]` ranks, the first from `low[d]` on
    and none above `high[d]`; the weights of the events in them begin at `weights[offset[d]]`.
    """

    low: Ints
    high: Ints
    bins: Ints
    shift: Ints
    offset: Ints
    weights: Floats


class BinLine(NamedTuple):
    """The bins of a node along one dimension."""

    bins: Int
    shift: Int
    """A bin has `1 << shift` ranks."""
    low: Int
    """The first rank inside the node."""
    span: Int
    """How many candidate cuts there are inside the node."""


@compiled
def cut_scratch(boxes: RankedBoxes) -> CutScratch:
    groups = np.int64(boxes.group.max()) + 1 if boxes.group.shape[0] else np.int64(0)
    return CutScratch(
        bool(groups != boxes.group.shape[0]),
        np.full(groups, -1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(groups, np.int32),
        np.zeros(groups, np.int32),
        np.zeros(groups, np.int32),
        np.zeros(MAX_BINS),
        np.zeros(MAX_BINS),
    )


@compiled
def best_of(
    node: BinnedNode, meeting: Ranks, boxes: RankedBoxes, patient: bool, scratch: CutScratch
) -> tuple[float, Int, Int]:
    """The best cut of a node that the boxes `meeting` meet: what it saves, its dimension, the last rank below it."""
    low, high, bins, shift, offset, weights = node
    first, last, starts, ends = boxes.first, boxes.last, scratch.starts, scratch.ends
    best, best_gain, best_d, best_k = 0.0, 0.0, np.int64(-1), np.int64(0)
    for d in range(bins.shape[0]):
        size = bins[d]
        if size == 0:
            continue
        line = BinLine(size, shift[d], low[d], high[d] - low[d])
        met = count_boxes(line, first[d], last[d], meeting, boxes, scratch)
        mass = weights[offset[d] : offset[d] + size]
        value, gain, j = best_cut(mass, starts[:size], ends[:size], met, patient, best)
        if j >= 0:
            best, best_gain, best_d, best_k = value, gain, np.int64(d), low[d] + (j + 1 << shift[d]) - 1
    return best_gain, best_d, best_k


@compiled
def best_cut(
    weights: Floats, starts: Floats, ends: Floats, met: float, patient: bool, least: float
) -> tuple[float, float, Int]:
    """The best cut behind a bin of one dimension: how good it is, what it saves, and the bin.

    `weights`, `starts` and `ends` are, by bin, the weight of events and the boxes that begin and end there; `met` is
    how many boxes there are in all. The bin is -1 where no cut is better than `least`.
    """
    total = weights.sum()
    cost = total * met
    best, best_gain, best_j = least, 0.0, np.int64(-1)
    below, here, gone = 0.0, 0.0, 0.0
    for j in range(weights.shape[0] - 1):
        if weights[j] == 0.0 and starts[j] == 0.0 and ends[j] == 0.0:
            continue  # as good as the cut behind the bin before
        below += weights[j]
        here += starts[j]
        gone += ends[j]
        lower, upper = below * here, (total - below) * (met - gone)
        gain = cost - lower - upper
        if gain <= 1e-9 * cost:  # a gain this small comes from rounding
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
    """What a node counts that will be cut further, from what it costs now.

    With n leaves, a node that costs c comes down to about c n**-a, and leaves best shared out over nodes of several
    costs bring their sum down to that of the c**(1 / (1 + a)), to the power of 1 + a. For boxes in several dimensions,
    a is about 1/7.
    """
    return float(cost / np.sqrt(np.sqrt(np.sqrt(cost)))) if cost > 0.0 else 0.0


@compiled
def can_wait(cost: float, whole: float, leaves: Int, bits: Int) -> bool:
    """Whether a node has bits to spare, if its share of the `leaves` is its share of the cost of the whole tree."""
    return bool(leaves > 0 and bits >= SPARE_BITS and leaves * cost <= 2.0 ** (bits - SPARE_BITS) * whole)


@compiled
def count_boxes(
    line: BinLine, first: Ranks, last: Ranks, meeting: Ranks, boxes: RankedBoxes, scratch: CutScratch
) -> float:
    """Count boxes and groups by the bins, along one dimension, in which they begin and end; how many there are.

    `first` and `last` are the ranks of all boxes in this dimension. The counts are in `scratch.starts` and
    `scratch.ends`.
    """
    starts, ends = scratch.starts, scratch.ends
    starts[: line.bins] = 0
    ends[: line.bins] = 0
    each = boxes.share if scratch.grouped else 1.0
    _add_ends(meeting, first, last, line, each, starts, ends)
    met = float(each * meeting.shape[0])
    if scratch.grouped:
        groups = _group_spans(first, last, boxes.group, meeting, scratch)
        _add_ends(scratch.touched[:groups], scratch.least, scratch.most, line, 1.0, starts, ends)
        met += groups
    return met


@compiled
def _add_ends(
    chosen: Ranks, first: Ranks, last: Ranks, line: BinLine, each: float, starts: Floats, ends: Floats
) -> None:
    """Add `each` to the bins in which the chosen boxes or groups begin and end, as far as they are inside the node."""
    _, shift, low, span = line
    for i in chosen:
        starts[max(first[i] - low, 0) >> shift] += each
        ends[min(last[i] - low, span) >> shift] += each


@compiled
def _group_spans(first: Ranks, last: Ranks, group: Ranks, meeting: Ranks, scratch: CutScratch) -> Int:
    """Find the groups of some boxes, and from which rank to which each reaches along one dimension; how many groups."""
    least, most, seen, touched = scratch.least, scratch.most, scratch.seen, scratch.touched
    scratch.tick[0] += 1
    tick = scratch.tick[0]
    found = 0
    for box in meeting:
        mine = group[box]
        if seen[mine] != tick:
            seen[mine] = tick
            touched[found] = mine
            found += 1
            least[mine], most[mine] = first[box], last[box]
        else:
            least[mine] = min(least[mine], first[box])
            most[mine] = max(most[mine], last[box])
    return found


@compiled
def met_by(meeting: Ranks, boxes: RankedBoxes, scratch: CutScratch) -> float:
    """How many groups some boxes belong to, and the share of the boxes that counts beside them."""
    if not scratch.grouped:
        return float(meeting.shape[0])
    seen, group = scratch.seen, boxes.group
    scratch.tick[0] += 1
    tick = scratch.tick[0]
    found = 0
    for box in meeting:
        if seen[group[box]] != tick:
            seen[group[box]] = tick
            found += 1
    return float(found + boxes.share * meeting.shape[0])

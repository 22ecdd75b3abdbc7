"""Cuts the dz under a prefix into cells that carry about as much traffic as each other, by a sample.

The heaviest cell is halved again and again. The cells are disjoint and cover all dz under the prefix, also those that
the sample does not have.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from pleroma.index.dz import Dz
from pleroma.routing.balancing.cable_loads import Sent


def cells_by_traffic(prefix: Dz, traffic: Iterable[Sent], count: int) -> list[Dz]:
    """Cells under the prefix, in the order of the line, of which at most `count` (and at least one) have traffic.

    A cell whose traffic has but one dz is not halved.
    """
    weights: dict[Dz, float] = {}
    for sent in traffic:  # what has more receivers crosses more cables
        if prefix.covers(sent.dz) and sent.receivers:
            weights[sent.dz] = weights.get(sent.dz, 0.0) + sent.weight * len(sent.receivers)
    empty: list[Dz] = []
    whole: list[Dz] = []
    halving = [(-sum(weights.values()), prefix, sorted(weights))]
    while halving and len(halving) + len(whole) < count:
        _, cell, held = heapq.heappop(halving)
        halves = [(half, [dz for dz in held if half.covers(dz)]) for half in cell.children] if len(held) > 1 else []
        if sum(len(inside) for _, inside in halves) < max(len(held), 1):  # one dz, or one that covers the others
            whole.append(cell)
            continue
        for half, inside in halves:
            if inside:
                heapq.heappush(halving, (-sum(weights[dz] for dz in inside), half, inside))
            else:
                empty.append(half)
    return sorted([*empty, *whole, *(cell for _, cell, _ in halving)], key=lambda dz: dz.start)

"""Balanced trees: the dz under a prefix are dealt out to several trees, so that the whole network carries events.

Before a prefix is used nothing is known of its traffic, and its dz are dealt by volume, as if hosts all sent to each
other alike. By sampled traffic it is dealt again (`deal`) under another prefix, since a dz keeps its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pleroma.errors import RoutingError
from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.index.dzset import EVERYTHING, DzSet
from pleroma.routing.balancing.tree_dealing import MAX_DEALT_TREES, deal_evenly
from pleroma.routing.family import Family, given, missing_from, released
from pleroma.routing.family_spans import FamilySpans, family_room
from pleroma.routing.request import Advertise
from pleroma.routing.topology import Topology
from pleroma.routing.tree import low_latency_tree

CELLS_PER_TREE = 2
"""Cells of traffic that are dealt to as many trees; more cells are dealt more evenly and cost more rules."""


@dataclass(frozen=True, slots=True)
class BalancedTrees:
    """At most `limit` trees under each prefix that is opened; whatever is under none has one low-latency tree."""

    limit: int = MAX_DEALT_TREES
    max_length: int = MAX_LENGTH
    """No cell that is dealt has more bits."""

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise RoutingError(f"there is at least one tree, not {self.limit}", field="limit", value=self.limit)

    def start(self, topology: Topology) -> Sequence[Family]:
        return [Family(EVERYTHING, low_latency_tree(topology))]

    def opened(self, families: Sequence[Family], topology: Topology, prefix: Dz) -> Sequence[Family]:
        others = released(families, prefix)
        spans = FamilySpans(family.region for family in others)
        if others and spans.least_rules >= family_room(topology.limits.values()):  # no table has room for another
            return given(others, DzSet([prefix]), others[spans.nearest(prefix.start)].tree)
        cells = cells_by_volume(prefix, most_cells(topology, others, self.limit), self.max_length)
        return joined([*others, *deal_evenly(topology, cells, self.limit)])

    def advertised(self, families: Sequence[Family], topology: Topology, request: Advertise) -> Sequence[Family]:
        """Leave families alone, unless the advertisement has dz that none of them has."""
        missing = missing_from(families, request.region)
        return given(families, missing, low_latency_tree(topology)) if missing else families

    def unadvertised(self, families: Sequence[Family], _advertised: Callable[[], DzSet]) -> Sequence[Family]:
        return families


def most_cells(topology: Topology, others: Iterable[Family], trees: int) -> int:
    """Into how many cells to deal a prefix: enough for these trees, if tables have room for a rule of each.

    Half of the room that the other families leave is kept for the next deal, which is there beside this one a while.
    """
    free = family_room(topology.limits.values()) - FamilySpans(family.region for family in others).least_rules
    return max(min(CELLS_PER_TREE * trees, free // 2), 1)


def cells_by_volume(prefix: Dz, count: int, max_length: int = MAX_LENGTH) -> list[Dz]:
    """The prefix in equal cells, as many as a power of two can be without being more than `count`."""
    bits = min(count.bit_length() - 1, max_length - prefix.length)
    return [prefix.then(Dz(1 << bits | number)) for number in range(1 << bits)]


def joined(families: Iterable[Family]) -> list[Family]:
    """The families, with those of the same tree as one."""
    by_tree: dict[object, Family] = {}
    for family in families:
        known = by_tree.get(family.tree)
        by_tree[family.tree] = Family(known.region | family.region, known.tree) if known else family
    return list(by_tree.values())

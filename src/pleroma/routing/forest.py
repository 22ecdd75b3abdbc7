"""Publisher-driven trees: each family of dz travels on a tree rooted at the publisher who first advertised it.

An advertisement joins the trees of the families it overlaps, and what no family holds yet becomes a new one
(Bhowmik 2013, 4.2.1; Grunert 2014, 2.2.1). When there are too many, the two families whose trees are most alike
become one, since that moves the fewest paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from pleroma.errors import RoutingError
from pleroma.index.dzset import NOTHING, DzSet
from pleroma.routing.request import Advertise
from pleroma.routing.router import Family
from pleroma.routing.topology import Topology
from pleroma.routing.tree import repair, rooted_tree


@dataclass(frozen=True, slots=True)
class PublisherForest:
    """At most `limit` trees. Unlike with one tree, which paths are used depends on who advertised first."""

    limit: int = 16

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise RoutingError(f"a forest has at least one tree, not {self.limit}", field="limit", value=self.limit)

    def start(self, _topology: Topology) -> Sequence[Family]:
        return []

    def advertised(self, families: Sequence[Family], topology: Topology, request: Advertise) -> Sequence[Family]:
        held = NOTHING
        for family in families:
            held = held | family.region
        new = request.region - held
        if not new:
            return families
        tree = rooted_tree(topology, topology.host[request.host].switch)
        grown = [*families, Family(new, tree)]
        while len(grown) > self.limit:
            grown = _merged(grown)
        return grown

    def unadvertised(self, families: Sequence[Family], advertised: Callable[[], DzSet]) -> Sequence[Family]:
        still = advertised()
        return [family for family in families if family.region.overlaps(still)]

    def changed(self, families: Sequence[Family], topology: Topology) -> Sequence[Family]:
        return [Family(family.region, repair(family.tree, topology)) for family in families]


def _merged(families: Sequence[Family]) -> list[Family]:
    """One family fewer: the two most alike share the tree of the one with the larger region."""

    def alike(pair: tuple[Family, Family]) -> tuple[int, float]:
        a, b = pair
        return len(set(a.tree.links) & set(b.tree.links)), -(a.region.volume + b.region.volume)

    a, b = max(combinations(families, 2), key=alike)
    tree = a.tree if a.region.atoms >= b.region.atoms else b.tree
    return [f for f in families if f is not a and f is not b] + [Family(a.region | b.region, tree)]

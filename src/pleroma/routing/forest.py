"""Publisher-driven trees: each family of dz travels on a tree rooted at the publisher who first advertised it.

An advertisement joins the trees of the families it overlaps, and what no family holds yet becomes a new one
(Bhowmik 2013, 4.2.1; Grunert 2014, 2.2.1). When there are enough trees, the paper merges two, which moves the paths of
events that are under way. Here the newcomer joins the tree that is most like its own instead, so nothing moves. When
tables would have no room for all families, the newcomer's region is split among those beside it, or joins one of them,
whichever takes the fewest rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pleroma.errors import RoutingError
from pleroma.index.dz import Dz
from pleroma.index.dzset import DzSet
from pleroma.routing.family import Family, missing_from, released
from pleroma.routing.family_spans import FamilySpans, family_room
from pleroma.routing.request import Advertise
from pleroma.routing.topology import Topology
from pleroma.routing.tree import Tree, rooted_tree


@dataclass(frozen=True, slots=True)
class PublisherForest:
    """At most `limit` trees. Unlike with one tree, which paths are used depends on who advertised first."""

    limit: int = 16

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise RoutingError(f"a forest has at least one tree, not {self.limit}", field="limit", value=self.limit)

    def start(self, _topology: Topology) -> Sequence[Family]:
        return []

    def opened(self, families: Sequence[Family], _topology: Topology, prefix: Dz) -> Sequence[Family]:
        return released(families, prefix)

    def advertised(self, families: Sequence[Family], topology: Topology, request: Advertise) -> Sequence[Family]:
        new = missing_from(families, request.region)
        if not new:
            return families
        tree = rooted_tree(topology, topology.host[request.host].switch)
        grown = [*families, Family(new, tree)] if len(families) < self.limit else _joined(families, new, tree)
        if not families or _rules_of(grown) <= family_room(topology.limits.values()):
            return grown
        return min([_split(families, new), *_each_joined(families, new)], key=_rules_of)

    def unadvertised(self, families: Sequence[Family], advertised: Callable[[], DzSet]) -> Sequence[Family]:
        still = advertised()
        return [family for family in families if family.region.overlaps(still)]


def _joined(families: Sequence[Family], new: DzSet, tree: Tree) -> list[Family]:
    """The region joins the family whose tree has the most links of the tree it would have; of these the largest."""

    def alike(family: Family) -> tuple[int, int]:
        return len(set(family.tree.links) & set(tree.links)), family.region.atoms

    best = max(families, key=alike)
    return [Family(f.region | new, f.tree) if f is best else f for f in families]


def _rules_of(families: Sequence[Family]) -> int:
    return FamilySpans(family.region for family in families).least_rules


def _each_joined(families: Sequence[Family], new: DzSet) -> Iterator[list[Family]]:
    """The families, with the region in each of them in turn."""
    for best in families:
        yield [Family(f.region | new, f.tree) if f is best else f for f in families]


def _split(families: Sequence[Family], new: DzSet) -> list[Family]:
    """Each piece of the region joins the family beside it."""
    spans = FamilySpans(family.region for family in families)
    parts: list[list[Dz]] = [[] for _ in families]
    for dz in new:
        parts[spans.nearest(dz.start)].append(dz)
    return [
        Family(family.region | DzSet(part), family.tree) if part else family
        for family, part in zip(families, parts, strict=True)
    ]

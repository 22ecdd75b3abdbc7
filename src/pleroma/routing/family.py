"""Families of dz and their trees: which tree the events of a dz travel on, and who decides that.

Every dz belongs to at most one family, and a family has one tree. On one tree an event reaches a host once, whatever
rules the switches have at the moment; if some switches forwarded it along one tree and others along another, it could
be lost, doubled, or go round. So a dz keeps its tree for as long as events of it may be under way. A policy decides
only about dz that nobody sends yet: of a new advertisement, or under a prefix that is about to be used for the first
time. The one exception is a link that fails, which loses events anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pleroma.index.dz import Dz
from pleroma.index.dzset import EVERYTHING, NOTHING, DzSet
from pleroma.routing.request import Advertise
from pleroma.routing.topology import Link, Topology
from pleroma.routing.tree import Tree, low_latency_tree, repair


@dataclass(frozen=True, slots=True)
class Family:
    """The tree on which the events of one region travel. Regions of different families are disjoint."""

    region: DzSet
    tree: Tree


class Policy(Protocol):
    """How the event space is divided among trees. Each method returns the families to use from now on.

    No dz that somebody may send already gets another tree.
    """

    def start(self, topology: Topology, /) -> Sequence[Family]:
        """The families of a network without registrations."""

    def opened(self, families: Sequence[Family], topology: Topology, prefix: Dz, /) -> Sequence[Family]:
        """The dz that begin with a prefix are about to be used. Nobody sends any of them yet."""

    def advertised(self, families: Sequence[Family], topology: Topology, request: Advertise, /) -> Sequence[Family]:
        """An advertisement is about to be registered."""

    def unadvertised(self, families: Sequence[Family], advertised: Callable[[], DzSet], /) -> Sequence[Family]:
        """An advertisement was withdrawn; `advertised` computes the region that is still advertised."""


class OneTree:
    """A single low-latency spanning tree for everything (Bhowmik et al. 2017, III-B)."""

    def start(self, topology: Topology) -> Sequence[Family]:
        return [Family(EVERYTHING, low_latency_tree(topology))]

    def opened(self, families: Sequence[Family], topology: Topology, prefix: Dz) -> Sequence[Family]:
        """Give the prefix to the family that has most of all dz, should another policy have made several.

        A forest leaves none that has so much. Then the prefix gets the tree that everything would have.
        """
        if not families:
            return self.start(topology)
        largest = max(families, key=lambda family: family.region.atoms)
        if largest.region.covers(prefix):
            return families
        has_most = 2 * largest.region.atoms > EVERYTHING.atoms
        tree = largest.tree if has_most else low_latency_tree(topology)
        return given(released(families, prefix), DzSet([prefix]), tree)

    def advertised(self, families: Sequence[Family], topology: Topology, request: Advertise) -> Sequence[Family]:
        """Give what no family has to the largest, should another policy have left something out."""
        missing = missing_from(families, request.region)
        if not missing:
            return families
        if not families:
            return self.start(topology)
        largest = max(families, key=lambda family: family.region.atoms)
        return [Family(f.region | missing, f.tree) if f is largest else f for f in families]

    def unadvertised(self, families: Sequence[Family], _advertised: Callable[[], DzSet]) -> Sequence[Family]:
        return families


@dataclass(frozen=True, slots=True)
class FollowedTrees:
    """The families of somebody else, who alone decides: `current` tells them whenever they are asked for."""

    current: Callable[[], Sequence[Family]]

    def start(self, _topology: Topology) -> Sequence[Family]:
        return self.current()

    def opened(self, _families: Sequence[Family], _topology: Topology, _prefix: Dz) -> Sequence[Family]:
        return self.current()

    def advertised(self, _families: Sequence[Family], _topology: Topology, _request: Advertise) -> Sequence[Family]:
        return self.current()

    def unadvertised(self, _families: Sequence[Family], _advertised: Callable[[], DzSet]) -> Sequence[Family]:
        return self.current()


def held_by(families: Sequence[Family]) -> DzSet:
    """All that the families have."""
    if len(families) == 1:
        return families[0].region
    held = NOTHING
    for family in families:
        held = held | family.region
    return held


def given(families: Sequence[Family], region: DzSet, tree: Tree) -> list[Family]:
    """The families, with a region that none of them has on this tree. It joins the family that has the tree, if any."""
    same = next((family for family in families if family.tree == tree), None)
    if same is None:
        return [*families, Family(region, tree)]
    return [Family(family.region | region, tree) if family is same else family for family in families]


def missing_from(families: Sequence[Family], region: DzSet) -> DzSet:
    """The part of a region that no family has."""
    if sum((region & family.region).atoms for family in families) == region.atoms:
        return NOTHING  # families have nothing in common
    return region - held_by(families)


def left_trees(before: Iterable[Family], after: Iterable[Family]) -> DzSet:
    """What had a tree before, and does not have the same tree after."""
    same: dict[tuple[Link, ...], DzSet] = {}
    for family in after:
        same[family.tree.links] = same.get(family.tree.links, NOTHING) | family.region
    left = (family.region - same.get(family.tree.links, NOTHING) for family in before)
    return DzSet(dz for region in left for dz in region)


def released(families: Iterable[Family], prefix: Dz) -> list[Family]:
    """The families without the dz that begin with a prefix."""
    cell = DzSet([prefix])
    kept = [Family(f.region - cell, f.tree) if f.region.overlaps(prefix) else f for f in families]
    return [family for family in kept if family.region]


def repaired(families: Iterable[Family], topology: Topology) -> list[Family]:
    """The families on a network that has changed. A tree whose links are all there stays as it is."""
    return [Family(family.region, repair(family.tree, topology)) for family in families]

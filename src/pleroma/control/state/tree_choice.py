"""Trees in the log: which policy deals out trees, and the trees that a plan change puts a schema on.

A tree is written as its cables. Read back on a network that lacks some of them, it is repaired as the failure of a link
would have it, so that an entry of the log means the same whatever has failed since it was decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pleroma.errors import ControlError, UnknownName
from pleroma.index import EVERYTHING, MAX_LENGTH, NOTHING, Dz, DzSet
from pleroma.routing import Family, OneTree, Policy, Port, PublisherForest, SwitchId, Topology
from pleroma.routing.balancing import BalancedTrees
from pleroma.routing.tree import Cable, cable_of, tree_along

TreeChoice = Literal["single", "forest", "balanced"]
TREE_CHOICES: tuple[TreeChoice, ...] = get_args(TreeChoice)


def policy_of(choice: TreeChoice, max_length: int = MAX_LENGTH) -> Policy:
    """The policy of a choice, where a dz has at most so many bits."""
    match choice:
        case "single":
            return OneTree()
        case "forest":
            return PublisherForest()
        case "balanced":
            return BalancedTrees(max_length=max_length)


def check_choice(choice: str) -> TreeChoice:
    for each in TREE_CHOICES:
        if each == choice:
            return each
    raise UnknownName("trees", str(choice), TREE_CHOICES, field="trees")


@dataclass(frozen=True, slots=True)
class DealtTree:
    """The events in these cells travel along these cables."""

    cells: DzSet
    cables: tuple[Cable, ...]

    @classmethod
    def of(cls, family: Family) -> DealtTree:
        return cls(family.region, tuple(cable_of(link) for link in family.tree.links))

    def family(self, topology: Topology, prefix: Dz | None = None) -> Family:
        """The family on a network, with its cells under a prefix."""
        cells = self.cells if prefix is None else self.cells.under(prefix)
        return Family(cells, tree_along(topology, self.cables))

    def to_json(self) -> dict[str, Any]:
        return {
            "cells": [str(dz) for dz in self.cells],
            "cables": [[a, a_port, b, b_port] for (a, a_port), (b, b_port) in self.cables],
        }

    @classmethod
    def from_json(cls, data: Any) -> DealtTree:
        try:
            cables = tuple(
                tuple(sorted(((SwitchId(a), Port(a_port)), (SwitchId(b), Port(b_port)))))
                for a, a_port, b, b_port in data["cables"]
            )
            return cls(DzSet.parse(*data["cells"]), cables)
        except (KeyError, TypeError, ValueError) as error:
            raise ControlError(f"this is no tree: {error}", field="trees", value=data) from None


@dataclass(frozen=True, slots=True)
class SchemaTrees:
    """The trees of a schema, cells without its prefix. With no tree in the list, they are as the policy makes them."""

    choice: TreeChoice = "single"
    """How the trees of the schema's next version are dealt out."""
    dealt: tuple[DealtTree, ...] = ()


UNKNOWN_TREES = SchemaTrees()


def check_trees(trees: Sequence[DealtTree]) -> None:
    """Refuse trees that leave a part of the event space out, or that have a part of it in common."""
    dealt = NOTHING
    for each in trees:
        if dealt.overlaps(each.cells):
            raise ControlError("two trees have cells in common", field="trees", value=str(each.cells & dealt))
        dealt = dealt | each.cells
    if trees and dealt != EVERYTHING:
        raise ControlError("the trees leave cells out", field="trees", value=str(EVERYTHING - dealt))


def dealt(families: Iterable[Family]) -> list[DealtTree]:
    return [DealtTree.of(family) for family in families]


def dealt_under(families: Iterable[Family], prefix: Dz) -> tuple[DealtTree, ...]:
    """The trees of the dz that begin with a prefix; the cells are written without it."""
    cut = (Family(family.region.inside(prefix), family.tree) for family in families)
    return tuple(DealtTree.of(family) for family in cut if family.region)

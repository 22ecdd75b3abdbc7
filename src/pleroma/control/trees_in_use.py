"""Which trees carry which schemas at the moment, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass

from pleroma.control.control_state import ControlState
from pleroma.index import Dz, DzSet
from pleroma.routing import Link
from pleroma.routing.tree import Tree


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """The dz of one version of a schema that travel on one tree. `is_other` is the version that a plan change adds."""

    schema: str
    prefix: Dz
    is_other: bool
    cells: DzSet

    @property
    def share(self) -> float:
        """The part of the schema's event space."""
        return self.cells.atoms / DzSet([self.prefix]).atoms


@dataclass(frozen=True, slots=True)
class TreeInUse:
    """`number` counts all families from 1, also those that no schema is on."""

    number: int
    tree: Tree
    parts: tuple[SchemaPart, ...]


def trees_in_use(state: ControlState) -> list[TreeInUse]:
    """The trees that carry a part of a schema."""
    versions = [(entry.name, entry.prefix, False) for entry in state.schemas.values()]
    change = state.plans.change
    if change is not None and change.prefix != change.entry.prefix:
        versions.append((change.schema, change.prefix, True))
    used = []
    for number, family in enumerate(state.router.families, 1):
        found = [(*version, family.region & DzSet([version[1]])) for version in versions]
        parts = tuple(SchemaPart(*each) for each in found if each[3])
        if parts:
            used.append(TreeInUse(number, family.tree, parts))
    return used


def unused_links(state: ControlState) -> list[Link]:
    """The links that carry events of no schema, though they could."""
    used = {link for each in trees_in_use(state) for link in each.tree.links}
    return [link for link in state.router.topology.links if link not in used]

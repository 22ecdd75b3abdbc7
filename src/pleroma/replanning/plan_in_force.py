"""The plan in force, and whoever holds it and takes its successor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pleroma.index import Index, SelectiveIndex


@dataclass(frozen=True, slots=True)
class PlanInForce:
    epoch: int
    index: Index
    members: int
    """The limit of dz per registration."""


class PlanHolder(Protocol):
    """Knows the plan in force, and can take another one."""

    def current(self) -> PlanInForce: ...

    def put(self, index: Index, members: int | None, epoch: int, predicted: Mapping[str, float] | None = None) -> int:
        """Have an index, and a limit of dz per registration, follow the plan of an epoch; returns the new epoch.

        Without a limit, that of the plan in force stays. `predicted` is kept beside the plan for people. PlanMoved if
        another plan is in force.
        """


def opened(index: Index) -> Index:
    """The index that covers any filter: a selective one that is quiet outside of its rectangles is opened there."""
    return index.opened() if isinstance(index, SelectiveIndex) and index.quiet else index

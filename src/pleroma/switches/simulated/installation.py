"""How an installation of flow operations is going: what stands, what was refused and why, what is still to come."""

from __future__ import annotations

from dataclasses import dataclass, field

from pleroma.routing.detour import RuleOp


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that left its rule as it was, and the reason; all of a bundle share the first reason."""

    op: RuleOp
    error: Exception


@dataclass(slots=True)
class Installation:
    """Fills up while the network's clock runs; `finished` is when the last operation was decided."""

    ops: tuple[RuleOp, ...]
    applied: list[RuleOp] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    finished: float | None = None

    @property
    def pending(self) -> int:
        return len(self.ops) - len(self.applied) - len(self.refused)

    @property
    def complete(self) -> bool:
        """Whether everything asked for stands."""
        return len(self.applied) == len(self.ops)

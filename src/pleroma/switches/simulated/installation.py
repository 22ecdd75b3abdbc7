"""The progress of an installation: which operations are applied, which are refused and why, which are pending."""

from __future__ import annotations

from dataclasses import dataclass, field

from pleroma.routing.detour import RuleOp


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that changed nothing, and the reason; all operations of a bundle share the first reason."""

    op: RuleOp
    error: Exception


@dataclass(slots=True)
class Installation:
    """Grows while the network's clock runs; `finished` is when the last operation was applied or refused."""

    ops: tuple[RuleOp, ...]
    applied: list[RuleOp] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    finished: float | None = None

    @property
    def pending(self) -> int:
        return len(self.ops) - len(self.applied) - len(self.refused)

    @property
    def complete(self) -> bool:
        """Whether all operations are applied."""
        return len(self.applied) == len(self.ops)

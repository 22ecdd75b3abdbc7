"""What becomes of a command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pleroma.errors import PleromaError
from pleroma.routing import AdmitOp, DetourOp, FlowOp, SwitchOp


@dataclass(frozen=True, slots=True)
class Done:
    """Carried out: what to answer, and what the switches have to do for it."""

    value: dict[str, Any]
    ops: list[FlowOp] = field(default_factory=list)
    """Changes to the rules that forward events."""
    more: list[AdmitOp | DetourOp] = field(default_factory=list)
    """Changes to what is let in at the ports of hosts, and to detours."""

    @property
    def all(self) -> list[SwitchOp]:
        return [*self.ops, *self.more]


@dataclass(frozen=True, slots=True)
class Refused:
    """Not carried out, and why."""

    error: PleromaError


Result = Done | Refused

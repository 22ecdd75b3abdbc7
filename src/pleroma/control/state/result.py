"""What becomes of a command: it is done, or refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pleroma.errors import PleromaError
from pleroma.routing import AdmitOp, DetourOp, FlowOp, SwitchOp

GuardOp = AdmitOp | DetourOp
"""A change to a switch that is not to its forwarding rules: to what a host may send, or to a detour."""


@dataclass(frozen=True, slots=True)
class Done:
    """Carried out: what to answer, and what the switches have to do for it."""

    value: dict[str, Any]
    flows: list[FlowOp] = field(default_factory=list)
    """Changes to the rules that forward events."""
    guards: list[GuardOp] = field(default_factory=list)
    """Changes to what hosts may send, and to detours."""

    @property
    def switch_ops(self) -> list[SwitchOp]:
        return [*self.flows, *self.guards]


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """Not carried out, and why."""

    error: PleromaError


Result = Done | CommandRefused

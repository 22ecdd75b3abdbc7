"""Detours: rules above all ordinary rules, which forward events while the ordinary rules are exchanged."""

from __future__ import annotations

from typing import NamedTuple

from pleroma.index.dz import Dz
from pleroma.routing.admission import AdmitOp
from pleroma.routing.flow import Change, Flow, FlowOp
from pleroma.routing.topology import SwitchId


class DetourOp(NamedTuple):
    """One change to the detours of one switch: events in the flow's dz leave by its outputs, whatever rules say."""

    switch: SwitchId
    change: Change
    flow: Flow

    def __str__(self) -> str:
        return f"{self.switch}: {self.change} detour {self.flow}"


RuleOp = FlowOp | DetourOp
"""Changes to the rules by which events are forwarded."""
SwitchOp = RuleOp | AdmitOp
"""All changes that a switch can be told to make."""


def cell_of(op: SwitchOp) -> Dz:
    """Where an operation changes something."""
    return op.dz if isinstance(op, AdmitOp) else op.flow.dz

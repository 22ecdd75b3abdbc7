"""What the feed says about a command: short, and without anything secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

from pleroma.control.control_state import ControlState
from pleroma.control.state.command import Command, Register
from pleroma.control.state.result import CommandRefused, Result
from pleroma.routing import FlowOp

MAX_LISTED_FLOW_OPS = 100
"""So many flow operations of one command are listed; their number is always told."""


def describe(
    position: int, command: Command, result: Result, state: ControlState, wanted: Set[str]
) -> Iterator[dict[str, Any]]:
    """Items of the types that are wanted."""
    if "request" in wanted:
        listed = command.to_json().items()
        public = {name: value for name, value in listed if name not in ("digest", "layout", "index")}
        said = {"refused": str(result.error)} if isinstance(result, CommandRefused) else {"value": result.value}
        yield {"type": "request", "position": position, "command": public} | said
    if isinstance(result, CommandRefused):
        return
    if result.flows and "flows" in wanted:
        yield flows_item(position, result.flows)
    epoch = result.value.get("epoch")
    if "plan" in wanted and epoch is not None and (not isinstance(command, Register) or result.value.get("opened")):
        name = result.value["schema"]
        item = {"type": "plan", "position": position, "schema": name, "epoch": state.schemas[name].epoch}
        yield item | {each: result.value[each] for each in ("phase",) if each in result.value}


def flows_item(position: int, ops: Sequence[FlowOp]) -> dict[str, Any]:
    return {
        "type": "flows",
        "position": position,
        "count": len(ops),
        "ops": [_flow(op) for op in ops[:MAX_LISTED_FLOW_OPS]],
    }


def _flow(op: FlowOp) -> dict[str, Any]:
    return {
        "switch": op.switch,
        "change": op.change.value,
        "dz": str(op.flow.dz),
        "ports": list(op.flow.ports),
    }

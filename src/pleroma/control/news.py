"""What the feed says about a command: short, and without anything secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pleroma.control.state import ControlState, Refused, Result
from pleroma.routing import FlowOp

SHOWN = 100
"""So many flow operations of one command are listed; their number is always told."""


def describe(
    position: int, command: Mapping[str, Any], result: Result, state: ControlState
) -> Iterator[dict[str, Any]]:
    public = {name: value for name, value in command.items() if name not in ("digest", "layout", "index")}
    told = {"type": "request", "position": position, "command": public}
    if isinstance(result, Refused):
        yield told | {"refused": str(result.error)}
        return
    yield told | {"value": result.value}
    if result.ops:
        listed = [_flow(op) for op in result.ops[:SHOWN]]
        yield {"type": "flows", "position": position, "count": len(result.ops), "ops": listed}
    epoch = result.value.get("epoch")
    if epoch is not None and (command["do"] != "register" or result.value.get("opened")):
        name = result.value["schema"]
        yield {"type": "plan", "position": position, "schema": name, "epoch": state.schemas[name].epoch}


def _flow(op: FlowOp) -> dict[str, Any]:
    return {
        "switch": op.switch,
        "change": op.change.value,
        "dz": str(op.flow.dz),
        "ports": list(op.flow.ports),
    }

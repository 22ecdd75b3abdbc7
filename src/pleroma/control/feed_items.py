"""The items by which the feed tells of a command: short, and without anything secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from pleroma.control.feed import FeedItem
from pleroma.control.short_values import ShortValues
from pleroma.control.state.command import Command, Register
from pleroma.control.state.result import CommandRefused, Result
from pleroma.routing import FlowOp

MAX_LISTED_FLOW_OPS = 100
"""So many flow operations of one command are listed; their number is always told."""


def command_items(position: int, command: Command, result: Result, wanted: Set[str]) -> Iterator[FeedItem]:
    """Items of the wanted types about a command that was applied at a position of the log."""
    if "request" in wanted:
        # whose command it is, is never cut off: it tells who may see the item
        listed = sorted(command.to_json().items(), key=lambda each: isinstance(each[1], (list, dict)))
        public = {name: value for name, value in listed if name not in ("verifier", "layout", "index")}
        outcome = {"refused": str(result.error)} if isinstance(result, CommandRefused) else {"value": result.value}
        yield {"type": "request", "position": position} | shortened({"command": public} | outcome)
    if isinstance(result, CommandRefused):
        return
    if result.flows and "flows" in wanted:
        yield flows_item(position, result.flows)
    value = result.value
    if "plan" in wanted and "epoch" in value and (not isinstance(command, Register) or value.get("opened")):
        item = {"type": "plan", "position": position, "schema": value["schema"], "epoch": value["epoch"]}
        yield item | {name: value[name] for name in ("phase",) if name in value}


def shortened(fields: Mapping[str, Any]) -> FeedItem:
    """Fields of an item without what is too long to be told to many, and then with one that says so."""
    rooms = {name: ShortValues() for name in fields}
    cut = {name: rooms[name].cut(value) for name, value in fields.items()}
    return cut | ({"shortened": True} if any(each.is_cut for each in rooms.values()) else {})


def flows_item(position: int, ops: Sequence[FlowOp]) -> FeedItem:
    """An item about rules that changed, because of a command or because the network did."""
    listed = [_flow(op) for op in ops[:MAX_LISTED_FLOW_OPS]]
    return {"type": "flows", "position": position, "count": len(ops), "ops": listed}


def _flow(op: FlowOp) -> dict[str, Any]:
    return {
        "switch": op.switch,
        "change": op.change.value,
        "dz": str(op.flow.dz),
        "ports": list(op.flow.ports),
    }

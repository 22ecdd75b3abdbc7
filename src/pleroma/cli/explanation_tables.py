"""A filter explained, as tables: the same for an index of one's own and for the plan in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pleroma.cli.output import out, show_table
from pleroma.client.session.traffic_share import TrafficShare
from pleroma.content import Filter, Schema
from pleroma.content.filter import literal
from pleroma.content.filter_json import from_json


def show_explanation(schema: Schema, found: Mapping[str, Any]) -> None:
    """`found` is what `pleroma.index.explanation` makes, with what the controller adds."""
    wanted, index = from_json(schema, found["boxes"]), found["index"]
    _say(f"filter  {found['filter']}")
    kind = f"{index['kind']} of {index['bits']} bits over {', '.join(index['attributes']) or 'nothing'}"
    _say(f"index   {kind}" + (f", plan {found['epoch']}" if "epoch" in found else ""))
    if not wanted:
        _say("No event can match this filter, so nothing is installed.")
        return
    boxes = [[_one_box(wanted, i, name) for name in schema.names] for i in range(len(wanted.boxes))]
    show_table("boxes", schema.names, boxes)
    cells = [(each["dz"], each["prefix"], f"{each['space']:.3%}") for each in found["cover"]]
    show_table("dz and prefixes", ("dz", "prefix", "share of the space"), cells)
    finer, limit = found["finer"], found["limit"]
    loss = found["space"] / finer["space"] - 1
    more = f", {loss:.0%} more than {finer['members']:,} would" if loss > 0.005 else ""
    _say(f"{found['members']} dz, of {limit:,} at most, hold {found['space']:.4%} of the event space{more}.")
    for name in found["ignored"]:
        _say(f"{name} is not looked at: the dz hold events with any {name}.")
    if "share" in found:
        share = TrafficShare.read(found)
        which = "events sampled of late" if "epoch" in found else "events of the workload"
        _say("No events were sampled." if share is None else f"Of {share.events:,} {which}: {share}.")


def _say(line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)


def _one_box(wanted: Filter, number: int, name: str) -> str:
    """What one box asks of one attribute, in a few characters."""
    attribute = wanted.schema[name]
    part = wanted.boxes[number].ranges[wanted.schema.position(name)]
    if part == attribute.domain:
        return "any"
    if part == attribute.present:
        return "present"
    inside = part.meet(attribute.present)
    if inside is None:
        return "absent"
    words = " and ".join(_condition(op, value) for op, value in attribute.conditions(inside))
    return words + (" or absent" if part.lo < inside.lo else "")


def _condition(operator: str, operand: Any) -> str:
    if operator == "between":
        return " to ".join(map(literal, operand))
    return ", ".join(map(literal, operand)) if operator == "in" else f"{operator} {literal(operand)}"

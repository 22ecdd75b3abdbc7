"""Filters as JSON, for programs: a list of boxes, each an object of attribute to conditions.

    [{"price": {">=": 50}, "ticker": {"==": "AAPL"}}, {"volume": {"between": [10, 20]}}]

The conditions of an attribute are and-ed, and so are the attributes of a box; the boxes are or-ed. `"or_absent": true`
beside other conditions also lets events through that lack the attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from pleroma.content.attribute import Attribute
from pleroma.content.box import Box
from pleroma.content.filter import Filter, condition_text, conditions_of, joined_terms
from pleroma.content.range import Range, Ranges, common, join
from pleroma.content.schema import Schema
from pleroma.content.work_budget import UNBOUNDED, WorkBudget
from pleroma.errors import FilterSyntax, shown


def to_json(filter: Filter) -> list[dict[str, Any]]:
    schema = filter.schema
    return [
        {
            a.name: conditions_of(a, part)
            for a, part, domain in zip(schema.attributes, box.ranges, schema.domains, strict=True)
            if part != domain
        }
        for box in filter.boxes
    ]


def written(boxes: Iterable[Mapping[str, Any]]) -> str:
    """The filter language's text of what `to_json` gave: that of the filter, without looking at its ranges again."""
    terms = [" and ".join(condition_text(*each) for each in box.items()) or "true" for box in boxes]
    return joined_terms(terms)


def from_json(schema: Schema, data: Any, work: WorkBudget = UNBOUNDED) -> Filter:
    if isinstance(data, Mapping):
        data = [data]
    if not isinstance(data, list):
        raise FilterSyntax("a filter is a list of boxes", value=data)
    return Filter.of(schema, (box for each in data for box in _boxes(schema, each, work)), work)


def _boxes(schema: Schema, data: Any, work: WorkBudget) -> Iterator[Box]:
    """Every choice of one range per attribute."""
    if not isinstance(data, Mapping):
        raise FilterSyntax("a box is an object of attribute to conditions", value=data)
    chosen: list[Range] = list(schema.domains)
    several: dict[int, Ranges] = {}
    for name, conditions in data.items():
        position = schema.position(str(name))
        ranges = _ranges(schema.attributes[position], schema.domains[position], conditions, work)
        if len(ranges) == 1:
            chosen[position] = ranges[0]
        else:
            several[position] = ranges
    if not several:
        return iter((Box(tuple(chosen)),))
    return map(Box, product(*(several.get(position, (part,)) for position, part in enumerate(chosen))))


def _ranges(attribute: Attribute, domain: Range, conditions: Any, work: WorkBudget) -> Ranges:
    if not isinstance(conditions, Mapping) or not conditions:
        raise FilterSyntax("conditions are an object of operator to value", field=attribute.name, value=conditions)
    ranges: Ranges = (domain,)
    or_absent = False
    for operator, operand in conditions.items():
        if operator == "or_absent":
            if not isinstance(operand, bool):
                reason = f"or_absent takes true or false, not {shown(operand)}"
                raise FilterSyntax(reason, field=attribute.name, value=operand)
            or_absent = operand
            continue
        work.spend(1 + 2 * len(operand) if isinstance(operand, list) else 1)
        selected = attribute.select(str(operator), operand)
        if len(ranges) == len(selected) == 1:  # as most are
            met = ranges[0].meet(selected[0])
            ranges = () if met is None else (met,)
        else:
            ranges = common((ranges, selected), domain)
    if or_absent:
        ranges = join((*ranges, *attribute.select("exists", False)))
    return ranges

"""Versions of a schema: a later one has wider domains, or optional attributes more, and differs in nothing else.

So every event of an earlier version is one of the later, and a filter means the same about it. About what is new, a
filter says what its boxes say: one that reaches to the end of a domain reaches to the end of the wider one, and one
that does not look at an attribute does not look at it.
"""

from __future__ import annotations

from itertools import zip_longest

from pleroma.content.attribute import Attribute
from pleroma.content.category import Category
from pleroma.content.event import Event
from pleroma.content.filter import Filter
from pleroma.content.filter_json import from_json, to_json
from pleroma.content.numeric import Integer, Real
from pleroma.content.schema import Schema


def obstacles(earlier: Schema, later: Schema) -> list[str]:
    """Why one schema is no later version of another, in words; none if it is one, or the same."""
    found = [] if earlier.name == later.name else [f"it is called {later.name!r}"]
    if earlier.encrypted != later.encrypted:
        found.append("events that are encrypted stay so, and others do not become so")
    for before, after in zip_longest(earlier.attributes, later.attributes):
        if before is None:
            if not after.optional:
                found.append(f"{after.name} is new, and has to be optional")
        elif after is None or after.name != before.name:
            found.append(f"{before.name} has to stay where it is, and new attributes come behind the others")
            break
        elif (why := _obstacle(before, after)) is not None:
            found.append(why)
    return found


def carried(filter: Filter, schema: Schema) -> Filter:
    """A filter of an earlier version on a later one."""
    return filter if filter.schema == schema else from_json(schema, to_json(filter))


def lifted(event: Event, schema: Schema) -> Event:
    """An event of an earlier version as one of a later: it lacks the attributes that are new."""
    both = zip(event.schema.attributes, schema.attributes, event.value_keys, strict=False)
    keys = tuple(key if key in before.present else after.absent for before, after, key in both)
    return Event(schema, keys + tuple(each.absent for each in schema.attributes[len(keys) :]))


def lowered(event: Event, schema: Schema) -> Event | None:
    """An event of a later version as one of an earlier; None if it has values that the earlier one has no room for."""
    later, keys, count = event.schema.attributes, event.value_keys, len(schema)
    if any(key in each.present for each, key in zip(later[count:], keys[count:], strict=True)):
        return None
    found = []
    for before, after, key in zip(schema.attributes, later, keys, strict=False):
        if key not in after.present:
            found.append(before.absent)
        elif key in before.present:
            found.append(key)
        else:
            return None
    return Event(schema, tuple(found))


def _obstacle(before: Attribute, after: Attribute) -> str | None:
    """Why an attribute is not the same with, at most, a wider domain."""
    name = before.name
    if before == after:
        return None
    if before.kind != after.kind:
        return f"{name} is {before.kind}, and cannot become {after.kind}"
    if before.optional != after.optional:
        return f"{name} is {'optional' if before.optional else 'required'}, and has to stay so"
    if isinstance(before, Category) and isinstance(after, Category):
        is_wider = after.values[: len(before.values)] == before.values
        return None if is_wider else f"the values of {name} have to stay as they are, and new ones come behind them"
    if isinstance(before, Integer | Real):
        if after.present.covers(before.present):
            return None
        return f"the domain of {name}, {before.describe()}, can become wider, and {after.describe()} is not"
    return f"{name} cannot be changed"

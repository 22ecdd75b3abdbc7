"""In which attributes two schemas of one name differ, in words: for whoever has one and was expecting the other."""

from __future__ import annotations

from pleroma.content.attribute import Attribute
from pleroma.content.schema import Schema
from pleroma.errors import shown


def schema_differences(there: Schema, here: Schema) -> list[str]:
    """What differs between the controller's schema (`there`) and one that a caller has (`here`)."""
    both = [name for name in there.names if name in here.names]
    found = [f"{name} is only there" for name in there.names if name not in here.names]
    found += [f"{name} is only here" for name in here.names if name not in there.names]
    found += [text for name in both for text in _attribute_differences(there[name], here[name])]
    if both != [name for name in here.names if name in there.names]:
        found.append("the attributes are in another order")
    if there.encrypted != here.encrypted:
        found.append(f"events are encrypted {'there' if there.encrypted else 'here'} alone")
    return found


def _attribute_differences(there: Attribute, here: Attribute) -> list[str]:
    one, other = ({"optional": each.optional} | each.to_json() for each in (there, here))
    fields = ["kind"] if there.kind != here.kind else sorted({*one, *other})
    return [
        f"{field} of {there.name} is {shown(one.get(field))} there and {shown(other.get(field))} here"
        for field in fields
        if one.get(field) != other.get(field)
    ]

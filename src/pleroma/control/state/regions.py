"""From filters to regions: which schemas and plans can be had, and what a plan makes of a registration."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

import pleroma.arrays.jit  # noqa: F401  # covers run compiled
from pleroma.content import Filter
from pleroma.control.state.command import CreateSchema, RegistrationKind
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.errors import AlreadyThere, LimitReached, PlanError
from pleroma.index import Dz, DzSet, GridIndex, Index, SelectiveIndex


def schema_prefix(number: int, settings: ControlSettings) -> Dz:
    """The share of the addresses that a schema has."""
    return Dz(1 << settings.schema_bits | number)


def spare_prefix(entry: SchemaEntry, schemas: Mapping[str, SchemaEntry], settings: ControlSettings) -> Dz:
    """The other of the two shares that a schema changes between when its versions are told apart by their prefix."""
    last = (1 << settings.schema_bits) - 1
    number = last - entry.number
    share = schema_prefix(number if entry.prefix == schema_prefix(entry.number, settings) else entry.number, settings)
    if number < len(schemas):
        reason = f"with {len(schemas)} schemas there is no spare prefix for another version"
        raise LimitReached(reason, field="method", value=entry.name)
    return share


def first_index(
    command: CreateSchema, schemas: Mapping[str, SchemaEntry], taken: Container[Dz], settings: ControlSettings
) -> GridIndex:
    """What a schema begins with, if it can be created beside these, and if the prefix for it is not taken."""
    name, most = command.schema.name, 1 << settings.schema_bits
    if name in schemas:
        raise AlreadyThere("there is a schema of this name", field="schema", value=name)
    if len(schemas) == most or schema_prefix(len(schemas), settings) in taken:
        raise LimitReached(f"there are {most} schemas, and no more prefixes", field="schema", value=name)
    bits = settings.default_bits if command.bits is None else command.bits
    if isinstance(bits, bool) or not isinstance(bits, int) or not 0 <= bits <= settings.room:
        raise PlanError(f"is a number from 0 to {settings.room}, not {bits!r}", field="bits", value=bits)
    return GridIndex.regular(command.schema, bits)


def check_plan(index: Index, entry: SchemaEntry, settings: ControlSettings) -> None:
    """That an index can be the next plan of a schema."""
    if index.schema != entry.schema:
        raise PlanError("the index is of another schema", field="index", value=index.schema.name)
    if index.bits > settings.room:
        reason = f"{index.bits} bits are more than the {settings.room} that a schema has"
        raise PlanError(reason, field="index", value=index.bits)


def cover(prefix: Dz, kind: RegistrationKind, filter: Filter, index: Index, most: int) -> tuple[Index, DzSet]:
    """The region of a filter, of at most so many cells under a prefix, and the index that can give it.

    A quiet index sends nothing outside its rectangles. A subscription that reaches out opens it, by which all other
    regions stay what they are; an advertisement promises there what nobody wants yet.
    """
    opened = index.opened() if isinstance(index, SelectiveIndex) and index.quiet else index
    covering = opened.cover(filter, max_members=most)
    if opened is not index and kind == "subscription":
        try:
            index.cover(filter, max_members=most)
        except PlanError:
            index = opened
    return index, covering.under(prefix)


def covered_anew(
    prefix: Dz, registered: Iterable[Registered], index: Index, most: int
) -> tuple[Index, list[Registered]]:
    """All of these with the regions of another index, and that index: opened where one of them needs it."""
    moved = []
    for each in registered:
        index, region = cover(prefix, each.kind, each.filter, index, most)
        moved.append(replace(each, region=region))
    return index, moved

"""From filters to regions: prefix and first index of a schema, and the regions that an index gives to filters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

import pleroma.arrays.jit  # noqa: F401  # covers run compiled
from pleroma.content import Filter
from pleroma.control.state.command import CreateSchema, KnownRegion, RegistrationKind
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.errors import AlreadyThere, LimitReached, PlanError
from pleroma.index import Dz, DzSet, GridIndex, Index, SelectiveIndex


def schema_prefix(number: int, settings: ControlSettings) -> Dz:
    """The prefix of all dz of a schema, by the number of the schema."""
    return Dz(1 << settings.schema_bits | number)


def spare_prefix(entry: SchemaEntry, schemas: Mapping[str, SchemaEntry], settings: ControlSettings) -> Dz:
    """The other one of the two prefixes of a schema. Plans whose prefix tells them apart use the two in turn."""
    last = (1 << settings.schema_bits) - 1
    number = last - entry.number
    prefix = schema_prefix(number if entry.prefix == schema_prefix(entry.number, settings) else entry.number, settings)
    if number < len(schemas):
        reason = f"with {len(schemas)} schemas there is no spare prefix for another version"
        raise LimitReached(reason, field="method", value=entry.name)
    return prefix


def first_index(
    command: CreateSchema, schemas: Mapping[str, SchemaEntry], taken: Container[Dz], settings: ControlSettings
) -> GridIndex:
    """The index that a new schema begins with; refused if there is no place or no free prefix for it."""
    name, max_schemas = command.schema.name, 1 << settings.schema_bits
    if name in schemas:
        raise AlreadyThere("there is a schema of this name", field="schema", value=name)
    if len(schemas) == max_schemas or schema_prefix(len(schemas), settings) in taken:
        raise LimitReached(f"there are {max_schemas} schemas, and no more prefixes", field="schema", value=name)
    bits = settings.default_bits if command.bits is None else command.bits
    if isinstance(bits, bool) or not isinstance(bits, int) or not 0 <= bits <= settings.room:
        raise PlanError(f"is a number from 0 to {settings.room}, not {bits!r}", field="bits", value=bits)
    return GridIndex.regular(command.schema, bits)


def check_plan(index: Index, entry: SchemaEntry, settings: ControlSettings) -> None:
    """Refuse an index that cannot be the next plan of a schema."""
    if index.schema != entry.schema:
        raise PlanError("the index is of another schema", field="index", value=index.schema.name)
    if index.bits > settings.room:
        reason = f"{index.bits} bits are more than the {settings.room} that a schema has"
        raise PlanError(reason, field="index", value=index.bits)


def cover(prefix: Dz, kind: RegistrationKind, filter: Filter, index: Index, max_members: int) -> tuple[Index, DzSet]:
    """The index that can give a filter its region, and that region: at most so many members under a prefix.

    Under a quiet index nothing outside of its rectangles is sent. A subscription to something outside opens the index,
    which leaves all other regions as they are. An advertisement does not: nobody wants yet what it has outside.
    """
    opened = index.opened() if isinstance(index, SelectiveIndex) and index.quiet else index
    covering = opened.cover(filter, max_members=max_members)
    if opened is not index and kind == "subscription":
        try:
            index.cover(filter, max_members=max_members)
        except PlanError:
            index = opened
    return index, covering.under(prefix)


def known_region(entry: SchemaEntry, kind: RegistrationKind, filter: Filter) -> KnownRegion:
    """What `cover` gives for a filter by the plan in force. Another thread may change the plan meanwhile."""
    prefix, plan = entry.prefix, entry.plan
    return KnownRegion(kind, prefix, plan, cover(prefix, kind, filter, plan.index, plan.members))


def covered_anew(
    prefix: Dz, registered: Iterable[Registered], index: Index, max_members: int
) -> tuple[Index, list[Registered]]:
    """Registrations with regions of another index, and that index: opened if one of the registrations needs it."""
    moved = []
    for each in registered:
        index, region = cover(prefix, each.kind, each.filter, index, max_members)
        moved.append(replace(each, region=region))
    return index, moved

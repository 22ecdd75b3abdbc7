"""From filters to regions: prefix and first index of a schema, and the regions that an index gives to filters."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

import pleroma.arrays.jit  # noqa: F401  # covers run compiled
from pleroma.content import Filter, Schema
from pleroma.control.state.command import KnownRegion, RegistrationKind
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.errors import LimitReached, PlanError
from pleroma.index import Dz, DzSet, GridIndex, Index, SelectiveIndex


def schema_prefix(share: int, settings: ControlSettings) -> Dz:
    """The prefix of all dz of a schema that has this share of the addresses."""
    return Dz(1 << settings.schema_bits | share)


def spare_share(share: int, settings: ControlSettings) -> int:
    """The share whose prefix a schema uses in turn with its own. Another schema may have that share."""
    return (1 << settings.schema_bits) - 1 - share


def spare_prefix(entry: SchemaEntry, schemas: Iterable[SchemaEntry], settings: ControlSettings) -> Dz:
    """The other one of the two prefixes of a schema. Plans whose prefix tells them apart use the two in turn."""
    spare, shares = spare_share(entry.share, settings), {each.share for each in schemas}
    if spare in shares:
        reason = f"with {len(shares)} schemas there is no spare prefix for another version"
        raise LimitReached(reason, field="method", value=entry.name)
    return schema_prefix(spare if entry.prefix == schema_prefix(entry.share, settings) else entry.share, settings)


def free_share(schemas: Iterable[SchemaEntry], taken: Container[Dz], settings: ControlSettings) -> int:
    """The share of the addresses for a new schema: the first that no schema has, and whose prefix none is using."""
    shares, count = {each.share for each in schemas}, 1 << settings.schema_bits
    for share in range(count):
        if share not in shares and schema_prefix(share, settings) not in taken:
            return share
    raise LimitReached(f"there are {count} schemas, and no more prefixes", field="schema", value=len(shares))


def first_index(schema: Schema, bits: int | None, settings: ControlSettings) -> GridIndex:
    """The index that a new schema begins with, of so many bits; None stands for the settings' default."""
    bits = settings.default_bits if bits is None else bits
    if isinstance(bits, bool) or not isinstance(bits, int) or not 0 <= bits <= settings.room:
        raise PlanError(f"is a number from 0 to {settings.room}, not {bits!r}", field="bits", value=bits)
    return GridIndex.regular(schema, bits)


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

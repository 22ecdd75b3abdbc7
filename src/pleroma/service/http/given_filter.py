"""Reading the filter that a request gives: rights first, then with a budget of work, and in a thread if it takes long.

A caller that may do nothing with the schema is refused before anybody looks at its filter. Any filter may turn out to
take long, however short it is, so the event loop begins with what looks small and leaves off early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.content.work_budget import WorkBudget
from pleroma.control import Principal, Register, SchemaEntry
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.regions import known_region
from pleroma.control.state.rights import check_registration, limit
from pleroma.errors import ContentError, FilterTooCostly, UnknownName
from pleroma.service.http.context import Service
from pleroma.service.http.models.given_filters import GivenFilter
from pleroma.service.http.models.registrations import NewRegistration

T = TypeVar("T")

MAX_FILTER_WORK_UNITS = 300_000
"""What a request may ask for: some tenths of a second in a thread. A filter of 1,000 boxes takes a tenth of it."""
_MAX_WORK_IN_LOOP_UNITS = 2_000
_MAX_CHARACTERS_IN_LOOP, _MAX_BOXES_IN_LOOP = 300, 8
"""A filter with more characters or boxes is read in a thread at once."""


async def read_given(
    service: Service, principal: Principal, kind: RegistrationKind, given: GivenFilter
) -> tuple[SchemaEntry, Filter]:
    """The schema that a request names, and the filter on it, all of which the principal may publish or read."""
    entry = _entry(service, principal, kind, given)

    def read(work: WorkBudget) -> Filter:
        wanted = _filter(entry.schema, given, work)
        check_registration(principal, kind, wanted, work=work)
        work.spend(wanted.terms)
        return wanted

    return entry, await _read(service, principal, given, read)


async def read_registration(
    service: Service, principal: Principal, kind: RegistrationKind, new: NewRegistration
) -> Register:
    """The command that registers what a request asks for, with all that takes long prepared."""
    entry = _entry(service, principal, kind, new)

    def read(work: WorkBudget) -> Register:
        wanted = _filter(entry.schema, new, work)
        within = check_registration(principal, kind, wanted, work=work)
        work.spend(wanted.terms)
        region = known_region(entry, kind, wanted) if len(wanted.boxes) > _MAX_BOXES_IN_LOOP else None
        known = wanted, within, str(wanted), region
        command = Register(kind, principal.name, new.host, new.name, to_json(wanted), new.lease, *known)
        _ = command.boxes  # is kept
        return command

    return await _read(service, principal, new, read)


def _entry(service: Service, principal: Principal, kind: RegistrationKind, given: GivenFilter) -> SchemaEntry:
    entry = service.state.schemas.get(given.name)
    if entry is None:
        raise UnknownName("schema", given.name, service.state.schemas, field="schema")
    limit(principal, kind, entry.schema)
    return entry


async def _read(service: Service, principal: Principal, given: GivenFilter, read: Callable[[WorkBudget], T]) -> T:
    try:
        if len(given.filter or "") <= _MAX_CHARACTERS_IN_LOOP and len(given.boxes or ()) <= _MAX_BOXES_IN_LOOP:
            try:
                return read(WorkBudget(_MAX_WORK_IN_LOOP_UNITS))
            except FilterTooCostly:
                pass
        return await service.turns.run(principal.name, read, WorkBudget(MAX_FILTER_WORK_UNITS))
    except ContentError as error:
        error.field = error.field or ("boxes" if given.filter is None else "filter")
        raise


def _filter(schema: Schema, given: GivenFilter, work: WorkBudget) -> Filter:
    return from_json(schema, given.boxes, work) if given.filter is None else Filter.parse(schema, given.filter, work)

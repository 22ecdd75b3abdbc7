"""Reading the filter that a request gives: rights first, then with a budget of work, and in a thread if it takes long.

A caller that may do nothing with the schema is refused before anybody looks at its filter. Any filter may turn out to
take long, however short it is, so the event loop begins with what looks small and leaves off early. The filters of a
batch that take long share one budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json, to_json, written
from pleroma.content.work_budget import WorkBudget
from pleroma.control import Principal, Register, SchemaEntry
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.regions import known_region
from pleroma.control.state.rights import check_registration, limit
from pleroma.errors import ContentError, FilterTooCostly, UnknownName
from pleroma.service.http.models.given_filters import GivenFilter
from pleroma.service.http.models.registrations import NewRegistration
from pleroma.service.http.resources.registration_desk import RegistrationDesk

T = TypeVar("T")

MAX_FILTER_WORK_UNITS = 300_000
"""What a request may ask for: some tenths of a second in a thread. A filter of 1,000 boxes takes a tenth of it."""
MAX_BATCH_WORK_UNITS = 4 * MAX_FILTER_WORK_UNITS
"""What all filters of a batch may ask for together, apart from those that take little."""
_MAX_WORK_IN_LOOP_UNITS = 2_000
_MAX_CHARACTERS_IN_LOOP, _MAX_BOXES_IN_LOOP = 300, 8
"""A filter with more characters or boxes is read in a thread at once."""


async def read_given(
    service: RegistrationDesk, principal: Principal, kind: RegistrationKind, given: GivenFilter
) -> tuple[SchemaEntry, Filter]:
    """The schema that a request names, and the filter on it, all of which the principal may publish or read."""
    entry = _entry(service, principal, kind, given)

    def read(work: WorkBudget) -> Filter:
        return _allowed(principal, kind, entry, given, work)[0]

    return entry, await _read(service, principal, given, read)


async def read_registration(
    service: RegistrationDesk, principal: Principal, kind: RegistrationKind, new: NewRegistration
) -> Register:
    """The command that registers what a request asks for, with all that takes long prepared."""
    entry = _entry(service, principal, kind, new)

    def read(work: WorkBudget) -> Register:
        wanted, within = _allowed(principal, kind, entry, new, work)
        region = known_region(entry, kind, wanted) if len(wanted.boxes) > _MAX_BOXES_IN_LOOP else None
        boxes = to_json(wanted)
        return _command(principal, kind, new, boxes, wanted, within, written(boxes), region)

    return await _read(service, principal, new, read)


async def read_batch_item(
    service: RegistrationDesk, principal: Principal, kind: RegistrationKind, new: NewRegistration, batch: WorkBudget
) -> tuple[Register, SchemaEntry]:
    """The same for an item of a batch, and its schema.

    The command has no text of the filter. It has the region, so that to fold many such commands takes little. If the
    filter takes long, its work is taken from the budget of the batch.
    """
    entry = _entry(service, principal, kind, new)

    def read(work: WorkBudget) -> Register:
        wanted, within = _allowed(principal, kind, entry, new, work)
        region = known_region(entry, kind, wanted) if wanted else None
        return _command(principal, kind, new, to_json(wanted), wanted, within, None, region)

    return await _read(service, principal, new, read, batch), entry


def _allowed(
    principal: Principal, kind: RegistrationKind, entry: SchemaEntry, given: GivenFilter, work: WorkBudget
) -> tuple[Filter, str | None]:
    """The filter, and the limit that it lies within."""
    wanted = _filter(entry.schema, given, work)
    within = check_registration(principal, kind, wanted, work=work)
    work.spend(wanted.terms)
    return wanted, within


def _command(principal: Principal, kind: RegistrationKind, new: NewRegistration, boxes: Any, *known: Any) -> Register:
    command = Register(kind, principal.name, new.host, new.name, boxes, new.lease, *known)
    _ = command.boxes  # is kept
    return command


def _entry(service: RegistrationDesk, principal: Principal, kind: RegistrationKind, given: GivenFilter) -> SchemaEntry:
    entry = service.state.schemas.get(given.name)
    if entry is None:
        raise UnknownName("schema", given.name, service.state.schemas, field="schema")
    limit(principal, kind, entry.schema)
    return entry


async def _read(
    service: RegistrationDesk,
    principal: Principal,
    given: GivenFilter,
    read: Callable[[WorkBudget], T],
    batch: WorkBudget | None = None,
) -> T:
    try:
        if len(given.filter or "") <= _MAX_CHARACTERS_IN_LOOP and len(given.boxes or ()) <= _MAX_BOXES_IN_LOOP:
            try:
                return read(WorkBudget(_MAX_WORK_IN_LOOP_UNITS))
            except FilterTooCostly:
                pass
        allowed = MAX_FILTER_WORK_UNITS if batch is None else min(MAX_FILTER_WORK_UNITS, batch.left)
        work = WorkBudget(allowed)
        try:
            return await service.turns.run(principal.name, read, work)
        finally:
            if batch is not None:
                batch.left -= allowed - max(work.left, 0)
    except ContentError as error:
        error.field = error.field or ("boxes" if given.filter is None else "filter")
        raise


def _filter(schema: Schema, given: GivenFilter, work: WorkBudget) -> Filter:
    return from_json(schema, given.boxes, work) if given.filter is None else Filter.parse(schema, given.filter, work)

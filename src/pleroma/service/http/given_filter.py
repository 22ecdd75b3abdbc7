"""Reading the filter that a request gives, in a thread if that may take long."""

from __future__ import annotations

import asyncio

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json
from pleroma.control import SchemaEntry
from pleroma.errors import ContentError, UnknownName
from pleroma.service.http.context import Service
from pleroma.service.http.models.given_filters import GivenFilter

_MAX_CHARACTERS_IN_LOOP, _MAX_BOXES_IN_LOOP = 300, 8
"""A filter with more characters or boxes is read in a thread: the work grows with the product of its parts."""


async def read_given(service: Service, given: GivenFilter) -> tuple[SchemaEntry, Filter]:
    """The schema that a request names, and the filter on it."""
    entry = service.state.schemas.get(given.name)
    if entry is None:
        raise UnknownName("schema", given.name, service.state.schemas, field="schema")
    try:
        if len(given.filter or "") > _MAX_CHARACTERS_IN_LOOP or len(given.boxes or ()) > _MAX_BOXES_IN_LOOP:
            return entry, await asyncio.to_thread(_read, entry.schema, given)
        return entry, _read(entry.schema, given)
    except ContentError as error:
        error.field = error.field or ("boxes" if given.filter is None else "filter")
        raise


def _read(schema: Schema, given: GivenFilter) -> Filter:
    return from_json(schema, given.boxes) if given.filter is None else Filter.parse(schema, given.filter)

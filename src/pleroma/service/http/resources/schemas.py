"""Schemas: what events are made of, and the share of the addresses that each got."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Schema
from pleroma.content.schema_versions import carried, obstacles
from pleroma.control import CreateSchema, ExtendSchema, Principal, Registered, RemoveSchema, SchemaEntry
from pleroma.control.state.rights import is_allowed, limit
from pleroma.errors import BadRequest, NotAllowed
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page, Paging
from pleroma.service.http.models.schemas import (
    ExtendedSchema,
    LaterVersion,
    NewSchema,
    RemovedSchema,
    SchemaAnswer,
)
from pleroma.service.http.models.strict_model import NAME_PATTERN
from pleroma.service.http.paging import behind, in_turns, page_response
from pleroma.service.http.resources.registrations import CONFIRM_PATIENCE_SECONDS
from pleroma.service.http.strict_route import StrictRoute
from pleroma.wire import fingerprint


def schemas(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/schemas", tags=["schemas"], route_class=StrictRoute)

    @router.post("", status_code=201, response_model=SchemaAnswer, summary="Create a schema")
    async def create(request: Request, new: NewSchema) -> Response:
        admin(request)
        schema = Schema.from_json(new.definition)
        if not NAME_PATTERN.fullmatch(schema.name):
            raise BadRequest("a name has 1 to 64 letters, digits, _ . -", field="schema.name", value=schema.name)
        if schema.encrypted and service.keys is None:
            raise BadRequest("encryption takes the keys of --event-tags on", field="schema.encrypted", value=True)
        members = service.state.settings.max_members if new.members is None else new.members
        await service.controller.submit(CreateSchema(schema, new.bits, members))
        return json_response(_shape(service.schema(schema.name)), 201)

    @router.get("", response_model=Page[SchemaAnswer], summary="List the schemas")
    async def many(at: Annotated[Paging, Query()]) -> Response:
        found = behind(service.state.schemas.values(), at.after, _name)
        return await page_response(in_turns(found), at.limit, _shape, _name)

    @router.get("/{name}", response_model=SchemaAnswer, summary="One schema")
    async def one(name: str) -> Response:
        return json_response(_shape(service.schema(name)))

    @router.put("/{name}", response_model=ExtendedSchema, summary="Go over to a later version of a schema")
    async def extend(request: Request, name: str, later: LaterVersion) -> Response:
        """Domains may become wider, and optional attributes come behind the others. Whoever publishes or subscribes
        goes on meanwhile. The version in force is no change.

        Refused if rights of somebody would no longer allow what they registered: change these first.
        """
        by = admin(request)
        entry = service.schema(name)
        schema = Schema.from_json(later.definition)
        if schema.name != name:
            raise BadRequest(f"the schema is called {schema.name!r}", field="schema.name", value=schema.name)
        await service.controller.settled()
        if not obstacles(entry.schema, schema):
            standing = [each for each in service.state.registrations.values() if each.entry is entry]
            limited = [(service.state.principals[each.principal], each) for each in standing]
            await service.turns.run(by.name, _check_rights, limited, schema)
        done = await service.controller.submit(ExtendSchema(schema), patience=CONFIRM_PATIENCE_SECONDS)
        return json_response({"withdrawn": []} | {name: done.value[name] for name in done.value if name != "unchanged"})

    @router.delete("/{name}", response_model=RemovedSchema, summary="Remove a schema that is not in use")
    async def remove(request: Request, name: str) -> Response:
        """Refused while anything is registered of it, or its plan changes. Rights that name it go with it."""
        admin(request)
        service.schema(name)
        done = await service.controller.submit(RemoveSchema(name), patience=CONFIRM_PATIENCE_SECONDS)
        return json_response(done.value)

    return router


def _check_rights(standing: list[tuple[Principal, Registered]], schema: Schema) -> None:
    """Refuse a version on which somebody's rights do not allow what they have registered."""
    for principal, each in standing:
        if principal.role != "admin" and not is_allowed(principal, each.kind, carried(each.filter, schema)):
            right = limit(principal, each.kind, schema)
            reason = f"{each.id} of {principal.name} would be more than its right, {right}; change the right first"
            raise NotAllowed(reason, field="schema", value=each.id, allowed=str(right))


def _name(entry: SchemaEntry) -> str:
    return entry.name


def _shape(entry: SchemaEntry) -> dict[str, Any]:
    return {
        "schema": entry.schema.to_json(),
        "number": entry.number,
        "prefix": str(entry.prefix),
        "fingerprint": fingerprint(entry.schema),
        "epoch": entry.epoch,
        "version": len(entry.versions),
    }

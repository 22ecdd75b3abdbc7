"""Schemas: what events are made of, and the share of the addresses that each got."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Schema
from pleroma.control import CreateSchema, RemoveSchema, SchemaEntry
from pleroma.errors import BadRequest
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page, Paging
from pleroma.service.http.models.schemas import NewSchema, RemovedSchema, SchemaAnswer
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

    @router.delete("/{name}", response_model=RemovedSchema, summary="Remove a schema that is not in use")
    async def remove(request: Request, name: str) -> Response:
        """Refused while anything is registered of it, or its plan changes. Rights that name it go with it."""
        admin(request)
        service.schema(name)
        done = await service.controller.submit(RemoveSchema(name), patience=CONFIRM_PATIENCE_SECONDS)
        return json_response(done.value)

    return router


def _name(entry: SchemaEntry) -> str:
    return entry.name


def _shape(entry: SchemaEntry) -> dict[str, Any]:
    return {
        "schema": entry.schema.to_json(),
        "number": entry.number,
        "prefix": str(entry.prefix),
        "fingerprint": fingerprint(entry.schema),
        "epoch": entry.epoch,
    }

"""Principals: who may make which requests. Only administrators see them; a token is shown once, when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Filter
from pleroma.content.work_budget import WorkBudget
from pleroma.control import CreatePrincipal, Principal, RemovePrincipal, SchemaEntry
from pleroma.control.state.rights import parsed
from pleroma.errors import NotAllowed, NotFound
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.given_filter import MAX_FILTER_WORK_UNITS
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page, Paging
from pleroma.service.http.models.principals import NewPrincipal, PrincipalAnswer, TokenAnswer
from pleroma.service.http.paging import behind, in_turns, page_response
from pleroma.service.http.strict_route import StrictRoute
from pleroma.service.http.tokens import digest, new_token


def principals(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/principals", tags=["principals"], route_class=StrictRoute)

    @router.post("", status_code=201, response_model=TokenAnswer, summary="Create a principal and its token")
    async def create(request: Request, new: NewPrincipal) -> Response:
        me = admin(request)
        token = new_token()
        settings = service.settings
        subscriptions = settings.max_subscriptions if new.subscriptions is None else new.subscriptions
        boxes = settings.max_boxes if new.boxes is None else new.boxes
        rights = new.publish, new.read
        await service.turns.run(me.name, _check_rights, service.state.schemas, rights)
        command = CreatePrincipal(new.name, new.role, digest(token), *rights, subscriptions, boxes)
        await service.controller.submit(command)
        return json_response({"name": new.name, "token": token}, 201)

    @router.get("", response_model=Page[PrincipalAnswer], summary="List the principals")
    async def many(request: Request, at: Annotated[Paging, Query()]) -> Response:
        admin(request)
        found = behind(service.state.principals.values(), at.after, _name)
        return await page_response(in_turns(found), at.limit, _shape, _name)

    @router.get("/{name}", response_model=PrincipalAnswer, summary="One principal")
    async def one(request: Request, name: str) -> Response:
        admin(request)
        return json_response(_shape(_known(service, name)))

    @router.delete("/{name}", status_code=204, summary="Remove a principal and all it registered")
    async def remove(request: Request, name: str) -> Response:
        me = admin(request)
        _known(service, name)
        if name == me.name:  # or there might be no administrator left
            reason = "an administrator cannot remove itself"
            raise NotAllowed(reason, field="name", value=name, allowed="another administrator")
        await service.controller.submit(RemovePrincipal(name))
        return Response(status_code=204)

    return router


def _known(service: Service, name: str) -> Principal:
    try:
        return service.state.principals[name]
    except KeyError:
        raise NotFound("there is no such principal", field="name", value=name) from None


def _check_rights(schemas: Mapping[str, SchemaEntry], rights: Iterable[Mapping[str, str]]) -> None:
    """Read the filters of a new principal's rights with a budget, before the state reads them without one."""
    for name, text in (each for side in rights for each in side.items()):
        if name in schemas:
            Filter.parse(schemas[name].schema, text, WorkBudget(MAX_FILTER_WORK_UNITS))
            parsed(schemas[name].schema, text)  # is kept


def _name(principal: Principal) -> str:
    return principal.name


def _shape(principal: Principal) -> dict[str, Any]:
    return {
        "name": principal.name,
        "role": principal.role,
        "publish": dict(principal.publish),
        "read": dict(principal.read),
        "subscriptions": principal.subscriptions,
        "boxes": principal.boxes,
    }

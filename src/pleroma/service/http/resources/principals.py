"""Principals: who may make which requests. Only administrators see them; a token is shown once, when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Filter
from pleroma.content.work_budget import WorkBudget
from pleroma.control import ChangePrincipal, CreatePrincipal, Principal, RemovePrincipal, RotateToken, SchemaEntry
from pleroma.control.state.people_commands import PRINCIPAL_LIMITS
from pleroma.control.state.rights import parsed
from pleroma.errors import NotAllowed, NotFound, NotInstalled
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin, caller
from pleroma.service.http.given_filter import MAX_FILTER_WORK_UNITS
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page
from pleroma.service.http.models.principals import (
    ChangedPrincipal,
    ChangedPrincipalAnswer,
    NewPrincipal,
    NewToken,
    PrincipalAnswer,
    PrincipalPaging,
    RotatedTokenAnswer,
    TokenAnswer,
)
from pleroma.service.http.paging import behind, in_turns, page_response
from pleroma.service.http.resources.registrations import CONFIRM_PATIENCE_SECONDS
from pleroma.service.http.strict_route import StrictRoute
from pleroma.service.http.token_life import ends_at, shown_instant
from pleroma.service.http.tokens import digest, new_token

LISTED_WITHDRAWN = 100
"""So many of the registrations that were withdrawn are named."""


def principals(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/principals", tags=["principals"], route_class=StrictRoute)

    @router.post("", status_code=201, response_model=TokenAnswer, summary="Create a principal and its token")
    async def create(request: Request, new: NewPrincipal) -> Response:
        me = admin(request)
        token, ends = new_token(), ends_at(new, service.clock())
        settings = service.settings
        subscriptions = settings.max_subscriptions if new.subscriptions is None else new.subscriptions
        boxes = settings.max_boxes if new.boxes is None else new.boxes
        rights = new.publish, new.read
        await check_rights(service, me, rights)
        belongs_to = tuple(dict.fromkeys(new.groups))
        command = CreatePrincipal(
            new.name, new.role, digest(token), *rights, subscriptions, boxes, groups=belongs_to, ends=ends
        )
        await service.controller.submit(command)
        return json_response({"name": new.name, "token": token, "expires_at": shown_instant(ends)}, 201)

    @router.get("", response_model=Page[PrincipalAnswer], summary="List the principals")
    async def many(request: Request, at: Annotated[PrincipalPaging, Query()]) -> Response:
        admin(request)
        listed = service.state.principals.values()
        found = behind((each for each in listed if at.group is None or at.group in each.groups), at.after, _name)
        return await page_response(in_turns(found), at.limit, partial(_shape, service), _name)

    @router.get("/{name}", response_model=PrincipalAnswer, summary="One principal")
    async def one(request: Request, name: str) -> Response:
        admin(request)
        return json_response(_shape(service, _known(service, name)))

    @router.patch("/{name}", response_model=ChangedPrincipalAnswer, summary="Change rights, limits or groups")
    async def change(request: Request, name: str, changed: ChangedPrincipal) -> Response:
        """What is not given stays. Registrations that the new rights do not allow are withdrawn at once."""
        me = admin(request)
        _known(service, name)
        if name == me.name and changed.role not in (None, "admin"):
            _refuse_to_shut_out("an administrator cannot become less by itself", name)
        await check_rights(service, me, (changed.publish, changed.read))
        limits = {each: getattr(changed, each) for each in PRINCIPAL_LIMITS if each in changed.model_fields_set}
        command = ChangePrincipal(name, changed.role, changed.publish, changed.read, limits, changed.groups)
        done = await service.controller.submit(command, patience=CONFIRM_PATIENCE_SECONDS)
        shape = _shape(service, _known(service, name))
        return json_response(shape | {"withdrawn": withdrawn(done.value["withdrawn"])})

    @router.post("/{name}/token", status_code=201, response_model=RotatedTokenAnswer, summary="Give it another token")
    async def rotate(request: Request, name: str, new: NewToken) -> Response:
        """The token before ends now, or after the `grace`, and with it all sessions that it has opened."""
        admin(request)
        before = set(service.state.registrations.by_principal.get(_known(service, name).name, ()))
        token, now = new_token(), service.clock()
        earlier_ends = now + new.grace if new.grace else None
        command = RotateToken(name, digest(token), ends_at(new, now), earlier_ends, new.withdraw)
        with suppress(NotInstalled):  # it is durable, and whoever asked is to have the token
            await service.controller.submit(command, patience=CONFIRM_PATIENCE_SECONDS)
        left = service.state.registrations.by_principal.get(name, {})
        shape = _shape(service, _known(service, name))
        instants = {each: shape[each] for each in ("expires_at", "earlier_expires_at")}
        gone = [each for each in before if each not in left] if new.withdraw else []
        return json_response({"name": name, "token": token, **instants, "withdrawn": withdrawn(sorted(gone))}, 201)

    @router.delete("/{name}", status_code=204, summary="Remove a principal and all it registered")
    async def remove(request: Request, name: str) -> Response:
        me = admin(request)
        _known(service, name)
        if name == me.name:  # or there might be no administrator left
            _refuse_to_shut_out("an administrator cannot remove itself", name)
        await service.controller.submit(RemovePrincipal(name))
        return Response(status_code=204)

    return router


def myself(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/me", tags=["principals"], route_class=StrictRoute)

    @router.get("", response_model=PrincipalAnswer, summary="The principal whose token this is")
    async def me(request: Request) -> Response:
        return json_response(_shape(service, caller(request)))

    return router


def _refuse_to_shut_out(reason: str, name: str) -> None:
    raise NotAllowed(reason, field="name", value=name, allowed="another administrator")


def _known(service: Service, name: str) -> Principal:
    try:
        return service.state.principals[name]
    except KeyError:
        raise NotFound("there is no such principal", field="name", value=name) from None


async def check_rights(service: Service, me: Principal, rights: Iterable[Mapping[str, str | None]]) -> None:
    """Read the filters of new rights with a budget and in a thread, before the state reads them without one."""
    await service.turns.run(me.name, _check_rights, service.state.schemas, rights)


def _check_rights(schemas: Mapping[str, SchemaEntry], rights: Iterable[Mapping[str, str | None]]) -> None:
    for name, text in (each for side in rights for each in side.items()):
        if name in schemas and text is not None:
            Filter.parse(schemas[name].schema, text, WorkBudget(MAX_FILTER_WORK_UNITS))
            parsed(schemas[name].schema, text)  # is kept


def withdrawn(ids: list[str]) -> dict[str, Any]:
    """What an answer says of registrations that were withdrawn."""
    return {"count": len(ids), "first": ids[:LISTED_WITHDRAWN]}


def _name(principal: Principal) -> str:
    return principal.name


def _shape(service: Service, principal: Principal) -> dict[str, Any]:
    is_over, earlier = service.tokens.is_over, principal.earlier
    return {
        "name": principal.name,
        "role": principal.role,
        "publish": dict(principal.own.publish),
        "read": dict(principal.own.read),
        "groups": list(principal.groups),
        "rights": {"publish": dict(principal.rights.publish), "read": dict(principal.rights.read)},
        "subscriptions": principal.subscriptions,
        "boxes": principal.boxes,
        "expires_at": shown_instant(principal.token.ends),
        "expired": is_over(principal.token),
        "earlier_expires_at": None if earlier is None or is_over(earlier) else shown_instant(earlier.ends),
    }

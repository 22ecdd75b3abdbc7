"""Advertisements and subscriptions: the same resource twice, under two names.

A principal sees and withdraws its own; an administrator all of them. A registration that does not exist and one of
another principal get the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.control import Principal, Register, Registered, Withdraw
from pleroma.control.state.command import RegistrationKind
from pleroma.errors import ContentError, NotFound, UnknownName
from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page
from pleroma.service.http.models.registrations import (
    AdvertisementAnswer,
    NewRegistration,
    RegistrationPaging,
    SubscriptionAnswer,
)
from pleroma.service.http.paging import page
from pleroma.service.http.strict_route import StrictRoute

_MAX_CHARACTERS_IN_LOOP, _MAX_BOXES_IN_LOOP = 300, 8
"""A filter with more characters or boxes is read in a thread: the work grows with the product of its parts."""


def registrations(service: Service, kind: RegistrationKind) -> APIRouter:
    shape = AdvertisementAnswer if kind == "advertisement" else SubscriptionAnswer
    router = APIRouter(prefix=f"/v1/{kind}s", tags=[f"{kind}s"], route_class=StrictRoute)

    @router.post("", status_code=201, response_model=shape, summary=f"Register {_article(kind)}")
    async def create(request: Request, new: NewRegistration) -> Response:
        principal = caller(request)
        wanted = await _filter(service, new)
        command = Register(kind, principal.name, new.host, new.name, to_json(wanted), new.lease, wanted)
        if new.lease is not None:
            service.leases.begin(principal.name, new.lease)
        done = await service.controller.submit(command, _key(principal, new.key))
        return json_response({**done.value, "principal": principal.name, "lease": new.lease}, 201)

    @router.get("", response_model=Page[shape], summary=f"List the {kind}s")  # type: ignore[valid-type]
    async def many(request: Request, at: Annotated[RegistrationPaging, Query()]) -> Response:
        found = _behind(service, kind, caller(request), at)
        return json_response(page(found, at.limit, _shape, lambda each: each.id))

    @router.get("/{id}", response_model=shape, summary=f"One {kind}")
    async def one(request: Request, id: str) -> Response:
        return json_response(_shape(_visible(service, kind, caller(request), id)))

    @router.delete("/{id}", status_code=204, summary=f"Withdraw {_article(kind)}")
    async def withdraw(request: Request, id: str) -> Response:
        principal = caller(request)
        _visible(service, kind, principal, id)
        await service.controller.submit(Withdraw(id, principal.name))
        return Response(status_code=204)

    return router


def _article(kind: RegistrationKind) -> str:
    return "an advertisement" if kind == "advertisement" else "a subscription"


def _key(principal: Principal, key: str | None) -> str | None:
    """Keys of different principals are different keys."""
    return None if key is None else f"{principal.name}/{key}"


async def _filter(service: Service, new: NewRegistration) -> Filter:
    entry = service.state.schemas.get(new.name)
    if entry is None:
        raise UnknownName("schema", new.name, service.state.schemas, field="schema")
    try:
        if len(new.filter or "") > _MAX_CHARACTERS_IN_LOOP or len(new.boxes or ()) > _MAX_BOXES_IN_LOOP:
            return await asyncio.to_thread(_read, entry.schema, new)
        return _read(entry.schema, new)
    except ContentError as error:
        error.field = error.field or ("boxes" if new.filter is None else "filter")
        raise


def _read(schema: Schema, new: NewRegistration) -> Filter:
    return from_json(schema, new.boxes) if new.filter is None else Filter.parse(schema, new.filter)


def _visible(service: Service, kind: RegistrationKind, principal: Principal, id: str) -> Registered:
    found = service.state.registrations.get(id)
    if found is None or found.kind != kind or not _sees(principal, found):
        raise NotFound(f"there is no such {kind}", field="id", value=id)
    return found


def _sees(principal: Principal, registered: Registered) -> bool:
    return principal.role == "admin" or registered.principal == principal.name


def _behind(
    service: Service, kind: RegistrationKind, principal: Principal, at: RegistrationPaging
) -> Iterator[Registered]:
    """The registrations of a page, in the order of their numbers: a page may begin behind one that was withdrawn."""
    after = _number(at.after)
    for each in service.state.registrations.values():
        if (
            each.kind == kind
            and _sees(principal, each)
            and (after == 0 or _number(each.id) > after)
            and at.name in (None, each.schema)
            and at.principal in (None, each.principal)
        ):
            yield each


def _number(id: str | None) -> int:
    digits = id[1:] if id else ""
    return int(digits) if digits.isdecimal() and digits.isascii() else 0


def _shape(registered: Registered) -> dict[str, Any]:
    shape = {
        "id": registered.id,
        "schema": registered.schema,
        "host": registered.host,
        "principal": registered.principal,
        "filter": str(registered.filter),
        "members": len(registered.region),
        "epoch": registered.entry.epoch,
        "lease": registered.lease,
    }
    return shape | ({"publisher": registered.publisher} if registered.kind == "advertisement" else {})

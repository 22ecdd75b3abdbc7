"""Advertisements and subscriptions: the same resource twice, under two names.

A principal sees and withdraws its own; an administrator all of them. A registration that does not exist and one of
another principal get the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.control import Principal, Registered, Withdraw
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.records import MAX_UNPACKED_CHARACTERS
from pleroma.errors import NotFound
from pleroma.service.http.gate import caller, shown_token
from pleroma.service.http.given_filter import read_registration
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page
from pleroma.service.http.models.registrations import (
    AdvertisementAnswer,
    KeyedAdvertisement,
    NewRegistration,
    RegistrationPaging,
    SharedSubscription,
    SubscriptionAnswer,
)
from pleroma.service.http.paging import in_turns, page_response
from pleroma.service.http.resources.registration_desk import RegistrationDesk
from pleroma.service.http.sampled_traffic import EncodedSample
from pleroma.service.http.strict_route import StrictRoute

CONFIRM_PATIENCE_SECONDS = 8.0
"""How long an answer waits for a switch that does not confirm its part.

It is less than the ten seconds after which a client gives up a request, so that the client is told why.
"""

_KEY_DIGEST_CHARACTERS = 16
"""How much of the digest of a principal's token is in its keys: enough to tell two principals of a name apart."""


def registrations(service: RegistrationDesk, kind: RegistrationKind) -> APIRouter:
    is_publisher = kind == "advertisement"
    shape = KeyedAdvertisement if is_publisher else SharedSubscription
    listed = AdvertisementAnswer if is_publisher else SubscriptionAnswer
    router = APIRouter(prefix=f"/v1/{kind}s", tags=[f"{kind}s"], route_class=StrictRoute)

    @router.post("", status_code=201, response_model=shape, summary=f"Register {_article(kind)}")
    async def create(request: Request, new: NewRegistration) -> Response:
        principal = caller(request)
        command = await read_registration(service, principal, kind, new)
        if new.lease is not None:
            service.leases.extend(principal.name, new.lease)
        key = key_in_log(principal, shown_token(request), new.key)
        done = await service.controller.submit(command, key, CONFIRM_PATIENCE_SECONDS)
        if new.lease is not None:
            service.leases.begin(principal.name, new.lease)
        answer = {**done.value, "filter": command.text, "principal": principal.name, "lease": new.lease}
        return json_response(await _whole(service, principal, kind, done.value["id"], answer), 201)

    @router.get("", response_model=Page[listed], summary=f"List the {kind}s")  # type: ignore[valid-type]
    async def many(request: Request, at: Annotated[RegistrationPaging, Query()]) -> Response:
        principal = caller(request)
        found = _behind(service, kind, principal, at)
        ready = partial(_make_text, service, principal)
        return await page_response(found, at.limit, _shape, lambda each: each.id, before=ready)

    @router.get("/{id}", response_model=shape, summary=f"One {kind}")
    async def one(request: Request, id: str) -> Response:
        principal = caller(request)
        found = visible(service, kind, principal, id)
        await _make_text(service, principal, found)
        return json_response(await _whole(service, principal, kind, id, _shape(found)))

    @router.delete("/{id}", status_code=204, summary=f"Withdraw {_article(kind)}")
    async def withdraw(request: Request, id: str) -> Response:
        principal = caller(request)
        visible(service, kind, principal, id)
        await service.controller.submit(Withdraw(id, principal.name), patience=CONFIRM_PATIENCE_SECONDS)
        return Response(status_code=204)

    return router


def _article(kind: RegistrationKind) -> str:
    return "an advertisement" if kind == "advertisement" else "a subscription"


def key_in_log(principal: Principal, digest: str, key: str | None) -> str | None:
    """The key of a request in the log: other principals have other keys, also one that had the same name before."""
    return None if key is None else f"{principal.name}/{digest[:_KEY_DIGEST_CHARACTERS]}/{key}"


async def _whole(
    service: RegistrationDesk, principal: Principal, kind: RegistrationKind, id: str, answer: dict[str, Any]
) -> dict[str, Any]:
    """The answer about one registration: for its owner with its key, and for a subscription with its share."""
    registered = service.state.registrations.get(id)
    is_own = answer["principal"] == principal.name
    if service.keys is not None and is_own:
        answer["event_key"] = service.keys.of(service.schema(answer["schema"]), answer.get("publisher"))
    else:
        answer["event_key"] = None
    if kind == "advertisement":
        return answer
    if registered is None or (sample := await service.traffic.of(registered.entry)) is None:
        return answer | {"share": None}
    return answer | {"share": await asyncio.to_thread(_share, sample, registered)}


def _share(sample: EncodedSample, registered: Registered) -> dict[str, Any]:
    return sample.share(registered.region, registered.filter)


def visible(service: RegistrationDesk, kind: RegistrationKind, principal: Principal, id: str) -> Registered:
    """The registration of this id, if the principal may see it; raises `NotFound`."""
    found = service.state.registrations.get(id)
    if found is None or found.kind != kind or not _sees(principal, found):
        raise NotFound(f"there is no such {kind}", field="id", value=id)
    return found


def _sees(principal: Principal, registered: Registered) -> bool:
    return principal.role == "admin" or registered.principal == principal.name


async def _make_text(service: RegistrationDesk, principal: Principal, registered: Registered) -> None:
    """See to it that the text of a filter is at hand; after a restart it may not be."""
    if not registered.has_text and len(registered.boxes) > MAX_UNPACKED_CHARACTERS:
        await service.turns.run(principal.name, getattr, registered, "text")


async def _behind(
    service: RegistrationDesk, kind: RegistrationKind, principal: Principal, at: RegistrationPaging
) -> AsyncIterator[Registered]:
    """The registrations of a page, in the order of their numbers: a page may begin behind one that was withdrawn."""
    whose = at.principal if principal.role == "admin" else principal.name
    found = service.state.registrations.behind(_number(at.after), whose)
    async for each in in_turns(found):
        if each.kind == kind and at.name in (None, each.schema) and at.principal in (None, each.principal):
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
        "filter": registered.text,
        "members": len(registered.region),
        "epoch": registered.entry.epoch,
        "lease": registered.lease,
    }
    return shape | ({"publisher": registered.publisher} if registered.kind == "advertisement" else {})

"""Many advertisements or subscriptions in one request, registered or withdrawn, each with a result of its own.

An item is what a request for it alone would be: with its own key, under the same rights and limits. It counts for less
than a request, since it takes less work.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from pleroma.content.work_budget import WorkBudget
from pleroma.control import Done, Principal, SchemaEntry, Withdraw
from pleroma.control.state.command import Command, Register, RegistrationKind
from pleroma.errors import TooFast
from pleroma.service.http.batch_slices import BatchCommand
from pleroma.service.http.gate import caller, shown_token
from pleroma.service.http.given_filter import MAX_BATCH_WORK_UNITS, read_batch_item
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.registration_batches import (
    BatchResults,
    ItemRegistered,
    ItemWithdrawn,
    RegisteredAdvertisement,
    RegisteredSubscription,
    RegistrationBatch,
    WithdrawalBatch,
)
from pleroma.service.http.models.registrations import NewRegistration
from pleroma.service.http.problems import complaint
from pleroma.service.http.resources.registration_desk import RegistrationDesk
from pleroma.service.http.resources.registrations import key_in_log, visible
from pleroma.service.http.strict_route import StrictRoute

REQUESTS_PER_ITEM = 0.5
"""As how much of a request an item counts: its work was measured as half of that of a request of its own."""

_validate = NewRegistration.__pydantic_validator__.validate_python


def registration_batches(service: RegistrationDesk, kind: RegistrationKind) -> APIRouter:
    registered = RegisteredAdvertisement if kind == "advertisement" else RegisteredSubscription
    router = APIRouter(prefix=f"/v1/{kind}s", tags=[f"{kind}s"], route_class=StrictRoute)

    @router.post(
        ":batch",
        response_model=BatchResults[ItemRegistered[registered]],  # type: ignore[valid-type]
        response_model_exclude_unset=True,
        summary=f"Register many {kind}s",
    )
    async def register_many(request: Request, batch: RegistrationBatch) -> Response:
        """The answer is 200 whatever becomes of the items: each has its own status, and `registration` or `error`."""
        principal, digest = caller(request), shown_token(request)
        _count(service, principal, len(batch.items))
        work, entries = WorkBudget(MAX_BATCH_WORK_UNITS), dict[str, SchemaEntry]()

        async def prepare(item: Any) -> BatchCommand:
            new = _read(item)
            command, entries[new.name] = await read_batch_item(service, principal, kind, new, work)
            if new.lease is not None:
                service.leases.extend(principal.name, new.lease)
            members = 1 if command.region is None else len(command.region.found[1])
            return BatchCommand(command, key_in_log(principal, digest, new.key), members)

        @cache
        def event_key(schema: str, publisher: int | None) -> str | None:
            return None if service.keys is None else service.keys.of(entries[schema], publisher)

        def answer(command: Command, done: Done) -> dict[str, Any]:
            assert isinstance(command, Register)  # noqa: S101
            if command.lease is not None:
                service.leases.begin(principal.name, command.lease)
            value = done.value
            more = {"principal": principal.name, "lease": command.lease}
            more["event_key"] = event_key(value["schema"], value.get("publisher"))
            return {"status": 201, "registration": value | more}

        results = await service.batches.carry_out(batch.items, prepare, answer)
        return json_response({"results": results})

    @router.post(
        ":withdraw",
        response_model=BatchResults[ItemWithdrawn],
        response_model_exclude_unset=True,
        summary=f"Withdraw many {kind}s",
    )
    async def withdraw_many(request: Request, batch: WithdrawalBatch) -> Response:
        """The answer is 200 whatever becomes of the items: each has its own status, and `error` if it is not 204."""
        principal = caller(request)
        _count(service, principal, len(batch.ids))

        async def prepare(id: str) -> BatchCommand:
            members = len(visible(service, kind, principal, id).region)
            return BatchCommand(Withdraw(id, principal.name), None, members)

        results = await service.batches.carry_out(batch.ids, prepare, lambda *_: {"status": 204})
        return json_response({"results": results})

    return router


def _read(item: Any) -> NewRegistration:
    try:
        new: NewRegistration = _validate(item)
    except ValidationError as error:
        raise complaint(error.errors()) from None
    return new


def _count(service: RegistrationDesk, principal: Principal, items: int) -> None:
    """Refuse a batch of a principal that asks for too much. The gate has counted the request itself."""
    seconds = service.buckets.take_more(principal.name, items * REQUESTS_PER_ITEM)
    if seconds:
        most = service.buckets.per_s / REQUESTS_PER_ITEM
        raise TooFast(f"more than {most:g} items of batches a second", seconds)

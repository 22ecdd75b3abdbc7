"""Plans: the index by which a schema's events become addresses. A client that has one asks again with its ETag."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from pleroma.content import Filter, Schema
from pleroma.control import AdoptPlan, ChangePlan, SchemaEntry
from pleroma.control.state.command import canonical
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.errors import NotFound, TooLarge
from pleroma.index import Index, IndexPlan, index_from_json
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin, caller, tuner
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.pages import Page, Paging
from pleroma.service.http.models.plans import AdoptedPlan, HowToChange, NewPlan, PlanAnswer, Rollback
from pleroma.service.http.paging import in_turns, page_response
from pleroma.service.http.strict_route import StrictRoute

MAX_INDEX_BYTES = 2**18
"""Of the index of a plan that is handed over, as JSON. Tables have no room for more leaves than fit into this."""
_SUFFIX = {"settled": "", "prepared": "-p", "swapped": "-s"}
_BEGUN: dict[int | str, dict[str, Any]] = {202: {"model": AdoptedPlan, "description": "The change is under way"}}


def plans(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/schemas/{name}", tags=["plans"], route_class=StrictRoute)

    @router.get(
        "/plan",
        response_model=PlanAnswer,
        summary="The plan in force",
        responses={304: {"description": "It is still the one of the ETag in If-None-Match"}},
    )
    async def current(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        entry = service.schema(name)
        phase = service.state.plans.phase(name)
        rate = service.samples.rate(name)
        drawn = f"-{rate!r}" if rate else ""
        etag = f'"{entry.number}-{entry.epoch}-{entry.plan.checksum[:16]}{_SUFFIX[phase]}{drawn}"'
        if if_none_match is not None and etag in (each.strip().removeprefix("W/") for each in if_none_match.split(",")):
            return Response(status_code=304, headers={"ETag": etag})
        now = {"phase": phase, "sample": rate, "earlier": [each.to_json() for each in entry.earlier]}
        return json_response(now | _shape(entry, entry.plan), headers={"ETag": etag})

    @router.get("/plans", response_model=Page[PlanAnswer], summary="The plans that are kept, from the oldest on")
    async def history(request: Request, name: str, at: Annotated[Paging, Query()]) -> Response:
        """Administrators see where each plan came from, what was predicted of it, and what it did."""
        entry, is_told = service.schema(name), caller(request).role == "admin"
        after = int(at.after) if at.after and at.after.isdecimal() and at.after.isascii() else 0
        found = in_turns([plan for plan in entry.plans if plan.epoch > after])

        def shown(plan: IndexPlan) -> dict[str, Any]:
            return _shape(entry, plan) | (_told(service, entry, plan.epoch) if is_told else {})

        return await page_response(found, at.limit, shown, lambda plan: str(plan.epoch))

    @router.put("/plan", response_model=AdoptedPlan, summary="Move to another index", responses=_BEGUN)
    async def adopt(request: Request, name: str, new: NewPlan) -> Response:
        """Without losing an event, unless `method` is `at_once`. The index that is in force is no change, unless
        `members` is another number.

        Besides administrators, principals with the role `tuner` may do this, and hardly anything else; but only
        administrators do it at once, since events may get lost.
        """
        by = admin(request) if new.method == "at_once" else tuner(request)
        entry = service.schema(name)
        if len(canonical(new.index)) > MAX_INDEX_BYTES:
            reason = f"an index has at most {MAX_INDEX_BYTES} bytes as JSON: about 20,000 leaves of a tree"
            raise TooLarge(reason, field="index", value=None)
        index = await asyncio.to_thread(_index, entry.schema, new.index)
        predicted = {} if new.predicted is None else new.predicted.model_dump(exclude_none=True)
        return await _move(service, name, index, new.members, new, PlanOrigin.now(by.name, predicted), new.epoch)

    @router.post("/plan/rollback", response_model=AdoptedPlan, summary="Move back to an earlier plan", responses=_BEGUN)
    async def rollback(request: Request, name: str, back: Rollback) -> Response:
        """Its index and its members are adopted again, under a new epoch."""
        by = admin(request)
        entry = service.schema(name)
        epoch = entry.epoch - 1 if back.epoch is None else back.epoch
        found = next((plan for plan in entry.plans if plan.epoch == epoch), None)
        if found is None:
            reason = f"{name} has no plan {epoch}, or no longer: it is kept from plan {entry.plans[0].epoch} on"
            raise NotFound(reason, field="epoch", value=epoch)
        known = entry.origins.get(epoch)
        origin = PlanOrigin.now(by.name, {} if known is None else known.predicted)
        return await _move(service, name, found.index, found.members, back, origin)

    return router


async def _move(
    service: Service,
    name: str,
    index: Index,
    members: int | None,
    how: HowToChange,
    origin: PlanOrigin,
    after: int | None = None,
) -> Response:
    controller = service.controller
    if how.method != "at_once":
        command = ChangePlan(name, index, how.method, after, members, origin=origin)
        await (controller.plan_changes.change if how.wait else controller.submit)(command)
    elif after not in (None, (entry := service.schema(name)).epoch) or not _is_in_force(entry, index, members):
        await controller.submit(AdoptPlan(name, index, after, members, origin))
    entry = service.schema(name)
    phase = service.state.plans.phase(name)
    status = 200 if phase == "settled" else 202
    return json_response({"schema": name, "epoch": entry.epoch, "phase": phase}, status)


def _index(schema: Schema, given: dict[str, Any]) -> Index:
    """An index whose tables are laid out: of a large tree, the event loop would stand still for the first cover."""
    index = index_from_json(schema, given)
    index.cover(Filter.everything(schema), max_members=1)
    return index


def _is_in_force(entry: SchemaEntry, index: Index, members: int | None) -> bool:
    return members in (None, entry.members) and index.to_json() == entry.index.to_json()


def _told(service: Service, entry: SchemaEntry, epoch: int) -> dict[str, Any]:
    """Where a plan came from, and what it did."""
    origin = entry.origins.get(epoch)
    return {
        "origin": None if origin is None else origin.to_json(),
        "measured": service.rates.of_plan(entry.name, epoch),
    }


def _shape(entry: SchemaEntry, plan: IndexPlan) -> dict[str, Any]:
    return {
        "epoch": plan.epoch,
        "number": entry.number,
        "prefix": str(entry.prefix),
        "members": plan.members,
        "plan": json.loads(plan.dumps()),
    }

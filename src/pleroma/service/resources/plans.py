"""Plans: the index by which a schema's events become addresses. Who has one asks again with its ETag."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from pleroma.control import AdoptPlan, SchemaEntry
from pleroma.index import IndexPlan, index_from_json
from pleroma.service.answers import json_response
from pleroma.service.context import Service
from pleroma.service.gate import admin
from pleroma.service.models import AdoptedPlan, NewPlan, Page, Paging, PlanAnswer
from pleroma.service.paging import page
from pleroma.service.strict_route import StrictRoute


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
        etag = f'"{entry.number}-{entry.epoch}-{entry.plan.checksum[:16]}"'
        if if_none_match is not None and etag in (each.strip().removeprefix("W/") for each in if_none_match.split(",")):
            return Response(status_code=304, headers={"ETag": etag})
        return json_response(_shape(service, entry, entry.plan), headers={"ETag": etag})

    @router.get("/plans", response_model=Page[PlanAnswer], summary="All plans, from the first on")
    async def history(name: str, at: Annotated[Paging, Query()]) -> Response:
        entry = service.schema(name)
        after = int(at.after) if at.after and at.after.isdecimal() and at.after.isascii() else 0
        found = (plan for plan in entry.plans if plan.epoch > after)
        return json_response(
            page(found, at.limit, lambda plan: _shape(service, entry, plan), lambda plan: str(plan.epoch))
        )

    @router.put("/plan", response_model=AdoptedPlan, summary="Adopt another index")
    async def adopt(request: Request, name: str, new: NewPlan) -> Response:
        admin(request)
        index = index_from_json(service.schema(name).schema, new.index)
        await service.controller.submit(AdoptPlan(name, index))
        return json_response({"schema": name, "epoch": service.schema(name).epoch})

    return router


def _shape(service: Service, entry: SchemaEntry, plan: IndexPlan) -> dict[str, Any]:
    return {
        "epoch": plan.epoch,
        "number": entry.number,
        "prefix": str(entry.prefix),
        "members": service.state.settings.max_members,
        "plan": json.loads(plan.dumps()),
    }

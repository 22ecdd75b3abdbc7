"""Statistics: what the controller holds, and what its clients report. A principal sees its own counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.control import Principal
from pleroma.control.client_counters import CLIENT_COUNTER_NAMES
from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.statistics import NewReport, StatisticsAnswer
from pleroma.service.http.strict_route import StrictRoute

MAX_LISTED_SUBSCRIPTIONS = 1000
"""Counters are listed of so many subscriptions; the sums are of all."""


def statistics(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["statistics"], route_class=StrictRoute)

    @router.get("/statistics", response_model=StatisticsAnswer, summary="Counts and counters")
    async def summary(request: Request) -> Response:
        """What clients count is since the controller started. Waste is the part of what arrived that nobody wanted."""
        principal = caller(request)
        state, reported = service.state, service.controller.client_counters
        everything = principal.role == "admin"
        own = state.registrations.by_principal.get(principal.name, {})
        kinds = [each.kind for each in (state.registrations if everything else own).values()]
        shown = [each for each in reported.subscriptions if everything or each in own][:MAX_LISTED_SUBSCRIPTIONS]
        answer: dict[str, Any] = {
            "position": service.controller.position,
            "schemas": len(state.schemas),
            "advertisements": kinds.count("advertisement"),
            "subscriptions": kinds.count("subscription"),
            "rules": sum(map(len, state.router.tables.values())),
            "reported": _totals(service, principal),
            "by_subscription": {each: _all(CLIENT_COUNTER_NAMES, reported.subscriptions[each]) for each in shown},
        }
        if everything:
            answer["principals"] = {name: _all(_NAMES, counted) for name, counted in reported.principals.items()}
            answer["hosts"] = service.plane.hosts()
        return json_response(answer)

    @router.post("/reports", status_code=204, summary="Say what a client counted since its last report")
    async def report(request: Request, said: NewReport) -> Response:
        """Numbers are added to those of before. A report about a subscription that is not the caller's is refused.

        A report that comes again as the same batch counts once.
        """
        counted = said.model_dump(include={"subscriptions"})["subscriptions"]
        principal = caller(request).name
        batch = None if said.batch is None else (said.batch.sender, said.batch.number)
        if service.controller.report(principal, counted, said.published, batch) and service.collection is not None:
            service.collection.add_report(principal, counted, batch)
        return Response(status_code=204)

    return router


_NAMES = ("published", *CLIENT_COUNTER_NAMES)


def _all(names: tuple[str, ...], counted: Mapping[str, int]) -> dict[str, int]:
    return {name: counted.get(name, 0) for name in names}


def _totals(service: Service, principal: Principal) -> dict[str, Any]:
    reported = service.controller.client_counters
    counted = reported.totals if principal.role == "admin" else reported.principals.get(principal.name, {})
    totals: dict[str, Any] = _all(_NAMES, counted)
    received = totals["delivered"] + totals["wasted"]
    return totals | {"waste": totals["wasted"] / received if received else None}

"""Who looks for better plans of a schema, and what the controller's own loop found last."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.control import SchemaEntry
from pleroma.control.state.regions import check_plan
from pleroma.index import index_from_json
from pleroma.replanning.proposals import Outlook
from pleroma.service.http.context import Service
from pleroma.service.http.gate import tuner
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.replanning import (
    ForecastAnswer,
    ForecastQuestion,
    ReplanningAnswer,
    WatcherClaim,
)
from pleroma.service.http.strict_route import StrictRoute


def replanning(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/schemas/{name}/plan", tags=["plans"], route_class=StrictRoute)

    @router.get("/replanning", response_model=ReplanningAnswer, summary="Who looks for better plans, and the last look")
    async def state(request: Request, name: str) -> Response:
        tuner(request)
        entry, loop = service.schema(name), service.replanning
        found = None if loop is None else loop.looks.get(entry.name)
        by = "watcher" if service.claims.is_claimed(entry.name) else "nobody" if loop is None else "controller"
        return json_response(
            {
                "schema": entry.name,
                "by": by,
                "changes": 0 if loop is None else loop.changes[entry.name],
                "window": None if found is None else found.window.to_json(),
                "decision": None if found is None else found.decision.to_json(),
                "trees": _trees(service, entry),
                "failure": None if loop is None else loop.failures.get(entry.name),
            }
        )

    @router.post("/watching", status_code=204, summary="Have the controller leave a schema to a watcher")
    async def watching(request: Request, name: str, claim: WatcherClaim) -> Response:
        """A watcher of the lake renews its claim while it runs. Plans are adopted as before, whoever proposes them."""
        tuner(request)
        service.claims.claim(service.schema(name).name, claim.seconds)
        return Response(status_code=204)

    @router.post("/forecast", response_model=ForecastAnswer, summary="What an index would do with recent events")
    async def forecast(request: Request, name: str, asked: ForecastQuestion) -> Response:
        """On the network as it is, for the subscriptions and advertisements there are, by the sampled events of late.

        Where nothing was sampled, events are imagined at random places of subscriptions.
        """
        tuner(request)
        entry = service.schema(name)
        index = index_from_json(entry.schema, asked.index)
        check_plan(index, entry, service.state.settings)
        found = await service.planner.forecast(entry, index, asked.members or entry.plan.members)
        answer = {"schema": entry.name, "events": found.events, "subscriptions": found.subscriptions}
        return json_response(answer | {"planned": _outlook(found.planned), "in_force": _outlook(found.in_force)})

    return router


def _trees(service: Service, entry: SchemaEntry) -> dict[str, Any]:
    state, loop = service.state, service.replanning
    balance = None if loop is None else loop.balances.get(entry.name)
    compared = None
    if balance is not None:
        shares: dict[str, Any] = {"now": balance.before, "expected": balance.after}
        compared = shares | {"events": balance.events, "outcome": balance.outcome}
    return {
        "choice": state.trees,
        "count": sum(family.region.overlaps(entry.prefix) for family in state.router.families),
        "moves": 0 if loop is None else loop.moves[entry.name],
        "busiest_cable": compared,
    }


def _outlook(found: Outlook) -> dict[str, Any]:
    waste = found.waste
    return {
        "waste_at_hosts": waste.rate,
        "packets": waste.deliveries,
        "wasted": waste.wasted,
        "rules": found.rules,
        "rules_by_switch": dict(found.by_switch),
    }

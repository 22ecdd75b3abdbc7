"""Who looks for better plans of a schema, and what the controller's own loop found last."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.service.http.context import Service
from pleroma.service.http.gate import tuner
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.replanning import ReplanningAnswer, WatcherClaim
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
                "failure": None if loop is None else loop.failure,
            }
        )

    @router.post("/watching", status_code=204, summary="Have the controller leave a schema to a watcher")
    async def watching(request: Request, name: str, claim: WatcherClaim) -> Response:
        """A watcher of the lake renews its claim while it runs. Plans are adopted as before, whoever proposes them."""
        tuner(request)
        service.claims.claim(service.schema(name).name, claim.seconds)
        return Response(status_code=204)

    return router

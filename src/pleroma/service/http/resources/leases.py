"""Leases: a program that renews its lease keeps what it registered under it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.leases import LeaseAnswer, PlansInUse
from pleroma.service.http.strict_route import StrictRoute


def leases(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/leases", tags=["leases"], route_class=StrictRoute)

    @router.put("/{lease:path}", response_model=LeaseAnswer, summary="Renew a lease")
    async def renew(request: Request, lease: str, using: PlansInUse | None = None) -> Response:
        """A lease that nothing is registered under is not found: then it has expired, and all is to be made again.

        With `plans` a client says which epoch it uses of which schema, so that a change of plans need not wait longer
        for it. One that is two plans behind is renewed, and told `plan_too_old`: it has to read the plans again.
        """
        name = caller(request).name
        leased = service.leases.renew(name, lease)
        if using is not None:
            service.controller.plan_changes.adopted(name, lease, using.plans)
        answer = {"lease": lease, "seconds": service.leases.seconds, "registrations": list(leased)}
        return json_response(answer | {"event_keys": None if service.keys is None else service.keys.id})

    return router

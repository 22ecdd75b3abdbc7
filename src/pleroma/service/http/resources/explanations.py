"""Explanations: what becomes of a filter under the plan in force, before anybody subscribes to it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.content import Filter
from pleroma.index import AddressRange, Dz, DzSet, IndexPlan
from pleroma.index.explanation import explained
from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller
from pleroma.service.http.given_filter import read_given
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.explanations import ExplanationAnswer, NewExplanation
from pleroma.service.http.sampled_traffic import EncodedSample
from pleroma.service.http.strict_route import StrictRoute


def explanations(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/explain", tags=["subscriptions"], route_class=StrictRoute)

    @router.post("", response_model=ExplanationAnswer, summary="What becomes of a filter under the plan in force")
    async def explain(request: Request, asked: NewExplanation) -> Response:
        """Of filters that the caller may subscribe to. Nothing is registered."""
        principal = caller(request)
        entry, wanted = await read_given(service, principal, "subscription", asked)
        prefix, plan = entry.prefix, entry.plan  # of now, like the sample: another plan may come while it is encoded
        sample = await service.traffic.of(entry)
        given = plan, prefix, wanted, service.plane.addresses, sample
        answer = await service.turns.run(principal.name, _explained, *given)
        return json_response({"schema": entry.name, "epoch": plan.epoch} | answer)

    return router


def _explained(
    plan: IndexPlan, prefix: Dz, wanted: Filter, addresses: AddressRange, sample: EncodedSample | None
) -> dict[str, Any]:
    answer = explained(wanted, plan.index, plan.members, addresses, prefix)
    region = DzSet.parse(*(each["dz"] for each in answer["cover"])).under(prefix)
    share = None if sample is None else sample.share(region, wanted)
    return answer | {"share": share}

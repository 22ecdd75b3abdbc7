"""The network: switches, links, and rules. Rules tell what others want, so only administrators see them."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.errors import BadRequest, DzError, NotFound, UnknownName
from pleroma.index import IPV6, Dz
from pleroma.routing import Flow, SwitchId
from pleroma.routing.topology_files import to_json
from pleroma.service.answers import json_response
from pleroma.service.context import Service
from pleroma.service.gate import admin
from pleroma.service.models import FlowAnswer, Page, Paging, SwitchAnswer, TopologyAnswer
from pleroma.service.paging import behind, page
from pleroma.service.strict_route import StrictRoute

ROOT_NAME = "ε"


def network(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["network"], route_class=StrictRoute)

    @router.get("/topology", response_model=TopologyAnswer, summary="Switches, hosts and links")
    async def topology() -> Response:
        return json_response(_without_infinity(to_json(service.state.topology)))

    @router.get("/switches", response_model=Page[SwitchAnswer], summary="The switches and how full they are")
    async def switches(at: Annotated[Paging, Query()]) -> Response:
        found = behind(service.state.topology.switches, at.after, str)
        return json_response(page(found, at.limit, lambda name: _switch(service, name), str))

    @router.get("/switches/{switch}/flows", response_model=Page[FlowAnswer], summary="The rules of a switch")
    async def flows(request: Request, switch: str, at: Annotated[Paging, Query()]) -> Response:
        """From the left of the event space to the right."""
        admin(request)
        tables = service.state.router.tables
        if switch not in tables:
            raise NotFound(UnknownName("switch", switch, tables).reason, field="switch", value=switch)
        after = None if at.after is None else _dz(at.after)
        found = await asyncio.to_thread(_behind, list(tables[SwitchId(switch)]), after, at.limit + 1)
        return json_response(page(found, at.limit, _flow, lambda flow: str(flow.dz)))

    return router


def _behind(flows: Sequence[Flow], after: Dz | None, most: int) -> list[Flow]:
    least = (-1, -1) if after is None else _place(after)
    return heapq.nsmallest(most, (f for f in flows if _place(f.dz) > least), key=lambda flow: _place(flow.dz))


def _place(dz: Dz) -> tuple[int, int]:
    return dz.start, dz.length


def _dz(text: str) -> Dz:
    try:
        return Dz.parse(text)
    except DzError as error:
        raise BadRequest(error.reason, field="after", value=text) from None


def _switch(service: Service, name: SwitchId) -> dict[str, Any]:
    router = service.state.router
    coarse = router.coarsened.get(name)
    return {
        "name": name,
        "rules": len(router.tables[name]),
        "limit": service.state.topology.limits.get(name),
        "wanted": None if coarse is None else coarse.wanted,
    }


def _flow(flow: Flow) -> dict[str, Any]:
    return {
        "dz": str(flow.dz) or ROOT_NAME,
        "prefix": str(IPV6.prefix(flow.dz)),
        "priority": flow.priority,
        "outputs": [{"port": output.port, "rewrite": output.rewrite} for output in flow.outputs],
    }


def _without_infinity(topology: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinite capacity; null stands for it."""
    for line in (*topology["hosts"], *topology["links"]):
        if not math.isfinite(line["capacity"]):
            line["capacity"] = None
    return topology

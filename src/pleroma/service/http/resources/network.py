"""The network: switches, links, and rules. Rules reveal what others subscribe to, so only administrators see them."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.control import Controller, SwitchDelay
from pleroma.errors import BadRequest, DzError, NotFound, UnknownName
from pleroma.index import Dz
from pleroma.routing import Flow, Router, SwitchId
from pleroma.routing.topology_files import to_json
from pleroma.service.http.context import Service
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.network import FlowAnswer, FlowPaging, NetworkAnswer, SwitchAnswer, TopologyAnswer
from pleroma.service.http.models.pages import Page, Paging
from pleroma.service.http.paging import behind, in_turns, page_response
from pleroma.service.http.strict_route import StrictRoute
from pleroma.switches.switch_status import SwitchStatus

ROOT_NAME = "ε"
COUNTERS_SECONDS = 5.0
"""How long a switch may take to tell its counters."""


def network(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["network"], route_class=StrictRoute)

    @router.get("/topology", response_model=TopologyAnswer, summary="Switches, hosts and links")
    async def topology() -> Response:
        return json_response(_without_infinity(to_json(service.plane.topology())))

    @router.get("/network", response_model=NetworkAnswer, summary="What is there of the network now, and what is not")
    async def condition(request: Request) -> Response:
        admin(request)
        plane = service.plane
        wrong = service.network_watch.look()
        answer = {
            "kind": plane.kind,
            "range": str(plane.addresses.base),
            "switches": {name: each.state for name, each in plane.switches().items()},
            "cut": wrong.cut,
            "unreachable": wrong.unreachable,
            **plane.condition(),
        }
        return json_response(answer)

    @router.get("/switches", response_model=Page[SwitchAnswer], summary="The switches and how full they are")
    async def switches(at: Annotated[Paging, Query()]) -> Response:
        found = behind(service.plane.topology().switches, at.after, str)
        show = partial(_switch, service.state.router, service.controller, service.plane.switches())
        return await page_response(in_turns(found), at.limit, show, str)

    @router.get("/switches/{switch}/flows", response_model=Page[FlowAnswer], summary="The rules of a switch")
    async def flows(request: Request, switch: str, at: Annotated[FlowPaging, Query()]) -> Response:
        """From the left of the event space to the right. With `counts`, an OpenFlow switch is asked for each page."""
        admin(request)
        tables = service.state.router.tables
        if switch not in tables:
            raise NotFound(UnknownName("switch", switch, tables).reason, field="switch", value=switch)
        after = None if at.after is None else _dz(at.after)
        found = await asyncio.to_thread(_behind, list(tables[SwitchId(switch)]), after, at.limit + 1)
        counted = await service.plane.count_packets(SwitchId(switch), COUNTERS_SECONDS) if at.counts else None
        show = partial(_flow, service.plane, counted or {})
        return await page_response(in_turns(found), at.limit, show, lambda flow: str(flow.dz))

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


def _switch(
    router: Router, controller: Controller, known: Mapping[SwitchId, SwitchStatus], name: SwitchId
) -> dict[str, Any]:
    coarse = router.coarsened.get(name)
    status = known.get(name, SwitchStatus("gone"))
    delay = controller.delays.get(name) or SwitchDelay(controller.position, 0, 0.0, None)
    return {
        "name": name,
        "rules": len(router.tables.get(name, ())),
        "limit": router.topology.limits.get(name),
        "wanted": None if coarse is None else coarse.wanted,
        "confirmed": delay.confirmed,
        "unconfirmed": delay.operations,
        "waiting": round(delay.seconds, 3),
        "failure": None if delay.failure is None else str(delay.failure),
        "state": status.state,
        "peer": status.peer,
        "entries": status.entries,
        "refused": status.refused,
        **asdict(status.counts),
    }


def _flow(plane: DataPlane, packets: Mapping[Dz, int], flow: Flow) -> dict[str, Any]:
    return {
        "dz": str(flow.dz) or ROOT_NAME,
        "prefix": str(plane.addresses.prefix(flow.dz)),
        "priority": plane.base_priority + flow.priority,
        "packets": packets.get(flow.dz),
        "outputs": [{"port": output.port, "rewrite": output.rewrite} for output in flow.outputs],
    }


def _without_infinity(topology: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinite capacity; null stands for it."""
    for line in (*topology["hosts"], *topology["links"]):
        if not math.isfinite(line["capacity"]):
            line["capacity"] = None
    return topology

"""Why an event reaches a host or does not: whether it is admitted, switch by switch, and then at the edge."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import pydantic_core
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Event
from pleroma.control import SchemaEntry
from pleroma.errors import BadRequest, ContentError, UnknownName
from pleroma.routing import HostId
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.trace import TraceAnswer, TraceQuestion
from pleroma.service.http.strict_route import StrictRoute
from pleroma.service.http.tracing.edge_explanation import ComparedRegistration, ComparedRegistrations
from pleroma.service.http.tracing.traced_event import EventTracer
from pleroma.service.http.tracing.verdict import EventJudge

MAX_EXPLAINED_REGISTRATIONS = 1000
COMPARED_IN_A_TURN = 2000
"""Registrations that are compared with an event before others have their turn."""
MAX_EXPLAINED_CHARACTERS = 2**20
"""Registrations are listed until their filters have so many characters together."""


def trace(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/trace", tags=["network"], route_class=StrictRoute)

    @router.get("", response_model=TraceAnswer, summary="Follow an event through the network")
    async def follow(request: Request, asked: Annotated[TraceQuestion, Query()]) -> Response:
        """Whether it is admitted; at every switch the rule or the detour that it follows; which subscriptions match."""
        me = admin(request).name
        entry = service.state.schemas.get(asked.name)
        if entry is None:
            raise UnknownName("schema", asked.name, service.state.schemas, field="schema")
        event = _event(entry, asked.event)
        for field, name in (("host", asked.host), ("to", asked.to)):
            if name is not None and name not in service.state.topology.host:
                raise UnknownName("host", name, service.state.topology.host, field=field)
        compared = await _compared(service, me, event)
        covering = (each.host for each in compared.advertisements if each.matches)
        host = asked.host if asked.host is not None else next(covering, None)
        plane = service.plane
        tracer = EventTracer(service.state, plane, live=asked.live)
        plans = await tracer.by_all_plans(entry, event, None if host is None else HostId(host))
        if asked.live:  # reading takes a while
            compared = await _compared(service, me, event)
        reached: set[str] = {receiver for plan in plans for receiver in plan.receivers}
        judge = EventJudge(host, compared, plane.topology(), plane.presence(), asked.live)
        advertised = [each for each in compared.advertisements if each.matches or each.host == host]
        wanted = [x for x in compared.subscriptions if x.matches or x.host in reached or x.host == asked.to]
        answer: dict[str, Any] = {
            "schema": entry.name,
            "epoch": plans[0].epoch,
            "phase": _PHASES[plans[1].plan] if len(plans) > 1 else "settled",
            "event": event.to_json(),
            "host": host,
            "live": asked.live,
            "plans": [{"epoch": plan.epoch, "plan": plan.plan, "dz": [str(dz) for dz in plan.dzs]} for plan in plans],
            "ways": [way.to_json(plan.epoch, plan.plan) for plan in plans for way in plan.ways],
            "reached": sorted(reached),
        }
        run = service.turns.run
        answer["verdicts"] = await run(me, lambda: [each.to_json() for each in judge.verdicts(plans, asked.to)])
        answer["advertisements"] = await run(me, _listed, advertised)
        listed = await run(me, _listed, wanted)
        answer["subscriptions"] = [each | {"reached": each["host"] in reached} for each in listed]
        return json_response(answer)

    return router


_PHASES = {"next": "prepared", "last": "swapped"}
"""By the role of the other plan: the phase of the change."""


async def _compared(service: Service, principal: str, event: Event) -> ComparedRegistrations:
    """All registrations of this moment, compared with the event in pieces that others need not wait long for."""
    everyone = list(service.state.registrations.values())
    compared = ComparedRegistrations((), ())
    for begin in range(0, len(everyone), COMPARED_IN_A_TURN):
        some = everyone[begin : begin + COMPARED_IN_A_TURN]
        compared += await service.turns.run(principal, ComparedRegistrations.of, some, event)
    return compared


def _listed(compared: Iterable[ComparedRegistration]) -> list[dict[str, Any]]:
    """The first registrations, as many as an answer may have, and not much more text than it may have."""
    listed: list[dict[str, Any]] = []
    characters = 0
    for each in islice(compared, MAX_EXPLAINED_REGISTRATIONS):
        listed.append(each.to_json())
        characters += len(each.filter)
        if characters > MAX_EXPLAINED_CHARACTERS:
            break
    return listed


def _event(entry: SchemaEntry, text: str) -> Event:
    try:
        values = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise BadRequest(f"is not JSON: {error}", field="event", value=text) from None
    try:
        return entry.schema.event(values)
    except ContentError as error:
        error.field = f"event.{error.field}" if error.field else "event"
        raise

"""Why an event reaches a host or does not: switch by switch, and then at the edge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

import pydantic_core
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from pleroma.content import Event
from pleroma.control import Registered, SchemaEntry
from pleroma.errors import BadRequest, ContentError, UnknownName
from pleroma.service.http.context import Service
from pleroma.service.http.edge_explanation import at_the_edge, failing
from pleroma.service.http.gate import admin
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.trace import TraceAnswer, TraceQuestion
from pleroma.service.http.strict_route import StrictRoute

MAX_EXPLAINED_SUBSCRIPTIONS = 1000


def trace(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/trace", tags=["network"], route_class=StrictRoute)

    @router.get("", response_model=TraceAnswer, summary="Follow an event through the network")
    async def follow(request: Request, asked: Annotated[TraceQuestion, Query()]) -> Response:
        """At every switch the rule that matched and those that nearly did; then which subscriptions match."""
        admin(request)
        entry = service.state.schemas.get(asked.name)
        if entry is None:
            raise UnknownName("schema", asked.name, service.state.schemas, field="schema")
        event = _event(entry, asked.event)
        registered = list(service.state.registrations.values())
        host = asked.host if asked.host is not None else _where_advertised(registered, event)
        for field, name in (("host", host), ("to", asked.to)):
            if name is not None and name not in service.state.topology.host:
                raise UnknownName("host", name, service.state.topology.host, field=field)
        dzs = [entry.prefix.then(dz) for dz in entry.index.dzs(event)]
        ways = [service.plane.trace(host, dz) for dz in dzs]
        reached: set[str] = {receiver for way in ways for receiver in way.receivers}
        edge = await asyncio.to_thread(_edge, registered, event, reached, asked.to)
        answer: dict[str, Any] = {
            "schema": entry.name,
            "epoch": entry.epoch,
            "event": event.values(),
            "host": host,
            "dz": [str(dz) for dz in dzs],
            "ways": [way.to_json() for way in ways],
            "reached": sorted(reached),
            "subscriptions": edge,
        }
        return json_response(answer)

    return router


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


def _where_advertised(registered: Sequence[Registered], event: Event) -> str:
    for each in registered:
        if each.kind == "advertisement" and each.entry.schema == event.schema and not failing(each.filter, event):
            return each.host
    raise BadRequest("no advertisement covers the event; say at which host it enters", field="host")


def _edge(registered: Sequence[Registered], event: Event, reached: set[str], to: str | None) -> list[dict[str, Any]]:
    return list(islice(at_the_edge(registered, event, reached, to), MAX_EXPLAINED_SUBSCRIPTIONS))

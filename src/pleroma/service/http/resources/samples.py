"""Samples: events that publishers send at the rate that the plan asks for, for the pipeline's lake."""

from __future__ import annotations

import asyncio
import time

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.control import Principal
from pleroma.control.state.rights import limit, parsed
from pleroma.errors import BadRequest, NotAllowed, NotFound
from pleroma.pipeline.lake.landed import BatchId, SampledEvents
from pleroma.service.collecting.collection import Collection
from pleroma.service.http.context import Service
from pleroma.service.http.gate import admin, caller
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.models.samples import NewSamples, SamplesAnswer, SamplingAnswer, SamplingRate
from pleroma.service.http.strict_route import StrictRoute

MAX_VALUES_IN_LOOP = 10_000
"""More values are checked in a thread of their own: others would wait for milliseconds."""


def samples(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["samples"], route_class=StrictRoute)

    @router.post("/samples", status_code=202, response_model=SamplesAnswer, summary="Hand over sampled events")
    async def take(request: Request, given: NewSamples) -> Response:
        """Only what the caller may publish, and all of one request or nothing.

        Events get the controller's time: now, less their ages. A batch that comes again is answered, and landed once.
        """
        if not service.samples.is_open:
            raise NotFound("this controller wants no samples: it has no lake, and re-plans nothing", field="lake")
        entry = service.schema(given.name)
        if given.epoch > entry.epoch:
            raise BadRequest(f"{given.name} has no plan {given.epoch}", field="epoch", value=given.epoch)
        now, principal = np.datetime64(time.time_ns() // 1000, "us"), caller(request)
        if sum(map(len, given.columns.values())) > MAX_VALUES_IN_LOOP:
            events = await asyncio.to_thread(_events, entry.schema, given, principal)
        else:
            events = _events(entry.schema, given, principal)
        ages = (np.array(given.ages, np.float64) * 1e6).astype("timedelta64[us]")
        batch = None if given.batch is None else BatchId(f"{principal.name}/{given.batch.sender}", given.batch.number)
        taken = service.samples.take(SampledEvents(events, now - ages, given.epoch, given.rate, batch))
        return json_response({"taken": taken}, 202)

    @router.put("/schemas/{name}/sampling", response_model=SamplingAnswer, summary="Choose how many events are sampled")
    async def choose(request: Request, name: str, chosen: SamplingRate) -> Response:
        """Publishers hear of it as of a new plan. It stays with the lake."""
        admin(request)
        collection = _collection(service)
        await collection.choose_rate(service.schema(name).name, chosen.rate)
        return json_response({"schema": name, "rate": chosen.rate})

    return router


def _collection(service: Service) -> Collection:
    if service.collection is None:
        raise NotFound("this controller collects nothing: it has no lake", field="lake")
    return service.collection


def _events(schema: Schema, given: NewSamples, principal: Principal) -> EventBatch:
    """The events of a request, which the principal may publish."""
    events = EventBatch.from_columns(schema, given.columns)
    if len(events) != len(given.ages):
        raise BadRequest(f"has {len(given.ages)} values for {len(events)} events", field="ages")
    _check_rights(principal, events)
    return events


def _check_rights(principal: Principal, events: EventBatch) -> None:
    text = limit(principal, "advertisement", events.schema)
    if text is None:
        return
    outside = np.flatnonzero(~events.matches(parsed(events.schema, text)))
    if outside.size:
        reason = f"{principal.name} may publish only {text}"
        raise NotAllowed(reason, field="columns", value=str(events.event(int(outside[0]))), allowed=text)

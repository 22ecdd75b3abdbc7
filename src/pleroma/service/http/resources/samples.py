"""Samples: events that publishers send at the rate that the plan asks for, for the pipeline's lake."""

from __future__ import annotations

import asyncio

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import Response

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.control import Principal
from pleroma.control.state.rights import limit, parsed
from pleroma.errors import BadRequest, NotAllowed, NotFound
from pleroma.pipeline.lake.landed import LEAST_SAMPLING_RATE, BatchId, SampledEvents
from pleroma.service.collecting.advertised_events import AdvertisedBoxes
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
        """Only what the caller advertises now, drawn at a rate that a plan's answer told, and at most its share.

        No more samples count than the network has seen events from the caller; others are left out. Events get
        the controller's time: now, less their ages. A batch that comes again is answered, and landed once.
        """
        if not service.samples.is_open:
            raise NotFound("this controller wants no samples: it has no lake, and re-plans nothing", field="lake")
        entry = service.schema(given.name)
        if given.epoch > entry.epoch:
            raise BadRequest(f"{given.name} has no plan {given.epoch}", field="epoch", value=given.epoch)
        service.samples.check_rate(given.name, given.rate)
        now, principal = np.datetime64(service.samples.now().replace(tzinfo=None), "us"), caller(request)
        advertised = service.advertised.of(principal.name, given.name)
        if sum(map(len, given.columns.values())) > MAX_VALUES_IN_LOOP or not advertised.is_quick:
            events, inside = await asyncio.to_thread(_events, entry.schema, given, principal, advertised)
        else:
            events, inside = _events(entry.schema, given, principal, advertised)
        ages = (np.array(given.ages, np.float64)[inside] * 1e6).astype("timedelta64[us]")
        batch = None if given.batch is None else BatchId(f"{principal.name}/{given.batch.sender}", given.batch.number)
        sampled = SampledEvents(events, now - ages, given.epoch, given.rate, batch, principal.name)
        await service.samples.settled(sampled)
        return json_response({"taken": service.samples.take(sampled)}, 202)

    @router.put("/schemas/{name}/sampling", response_model=SamplingAnswer, summary="Choose how many events are sampled")
    async def choose(request: Request, name: str, chosen: SamplingRate) -> Response:
        """Publishers hear of it as of a new plan. It stays with the lake."""
        admin(request)
        collection = _collection(service)
        if 0 < chosen.rate < LEAST_SAMPLING_RATE:
            raise BadRequest(f"is 0, or at least {LEAST_SAMPLING_RATE:g}", field="rate", value=chosen.rate)
        await collection.choose_rate(service.schema(name).name, chosen.rate)
        return json_response({"schema": name, "rate": chosen.rate})

    return router


def _collection(service: Service) -> Collection:
    if service.collection is None:
        raise NotFound("this controller collects nothing: it has no lake", field="lake")
    return service.collection


def _events(
    schema: Schema, given: NewSamples, principal: Principal, advertised: AdvertisedBoxes
) -> tuple[EventBatch, NDArray[np.bool_]]:
    """The events of a request that the principal advertises, and for each event of the request whether it is one."""
    events = EventBatch.from_columns(schema, given.columns)
    if len(events) != len(given.ages):
        raise BadRequest(f"has {len(given.ages)} values for {len(events)} events", field="ages")
    _check_rights(principal, events)
    inside = advertised.hold(events)
    if advertised.is_whole and not inside.all():
        value = str(events.event(int(np.flatnonzero(~inside)[0])))
        reason = f"{principal.name} has no advertisement of this event"
        raise NotAllowed(reason, field="columns", value=value, allowed="what is advertised now")
    return events[inside], inside


def _check_rights(principal: Principal, events: EventBatch) -> None:
    text = limit(principal, "advertisement", events.schema)
    if text is None:
        return
    outside = np.flatnonzero(~events.matches(parsed(events.schema, text)))
    if outside.size:
        reason = f"{principal.name} may publish only {text}"
        raise NotAllowed(reason, field="columns", value=str(events.event(int(outside[0]))), allowed=text)

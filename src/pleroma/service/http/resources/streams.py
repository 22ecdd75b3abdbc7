"""The live stream of what the controller does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from pleroma.control.feed import FEED_TYPES
from pleroma.errors import TooFast, UnknownName
from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller
from pleroma.service.http.models.streams import StreamQuestion
from pleroma.service.http.stream import events
from pleroma.service.http.strict_route import StrictRoute

_EXAMPLE = 'event: plan\ndata: {"type":"plan","schema":"stock","epoch":2}\n\n'
_RETRY_SECONDS = 5.0


def streams(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/stream", tags=["stream"], route_class=StrictRoute)
    open_streams = 0

    @router.get(
        "",
        summary="Requests, flow operations, plans and counters as they happen",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}}},
        },
    )
    async def stream(request: Request, asked: Annotated[StreamQuestion, Query()]) -> Response:
        types = frozenset(asked.types.split(",")) if asked.types else FEED_TYPES
        for name in sorted(types - FEED_TYPES):
            raise UnknownName("type", name, sorted(FEED_TYPES), field="types")
        if open_streams >= service.settings.max_streams:
            raise TooFast(f"there are {service.settings.max_streams} streams, and no room for more", _RETRY_SECONDS)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        principal = caller(request)

        async def counted() -> AsyncIterator[bytes]:
            nonlocal open_streams
            open_streams += 1
            service.metrics.streams.inc()
            try:
                async for each in events(service, principal, types):
                    yield each
            finally:
                open_streams -= 1
                service.metrics.streams.dec()

        return StreamingResponse(counted(), headers=headers, media_type="text/event-stream")

    return router

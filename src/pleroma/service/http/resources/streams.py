"""The live stream of what the controller does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from pleroma.control.feed import FEED_TYPES
from pleroma.errors import UnknownName
from pleroma.service.http.context import Service
from pleroma.service.http.gate import caller, shown_token
from pleroma.service.http.models.streams import StreamQuestion
from pleroma.service.http.stream import events
from pleroma.service.http.strict_route import StrictRoute

_EXAMPLE = 'event: plan\ndata: {"type":"plan","schema":"stock","epoch":2}\n\n'


def streams(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1/stream", tags=["stream"], route_class=StrictRoute)

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
        give_back = service.streams.take(caller(request).name)
        return _EventStream(events(service, shown_token(request), types), give_back)

    return router


class _EventStream(StreamingResponse):
    """Gives the stream back when it is over, also one whose client was gone before the first event."""

    def __init__(self, content: AsyncIterator[bytes], give_back: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, headers=headers, media_type="text/event-stream")
        self._give_back = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._give_back()

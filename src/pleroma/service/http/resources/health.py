"""Health, metrics and the documentation page. They need no token, so they show nothing about single principals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, Response

import pleroma
from pleroma.control import SwitchDelay
from pleroma.errors import SetupError
from pleroma.routing import SwitchId
from pleroma.service.http.context import Service
from pleroma.service.http.docs_page import page
from pleroma.service.http.json_answers import json_response, to_bytes
from pleroma.service.http.metrics import CONTENT_TYPE
from pleroma.service.http.models.health import HealthAnswer

UNCONFIRMED_TOO_LONG_SECONDS = 5.0
"""A switch that has not confirmed a change for so long is a reason to worry."""


def health(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/health", response_model=HealthAnswer, summary="Whether the service is up")
    async def up() -> Response:
        if service.closing.is_set():
            raise SetupError("the service is about to stop", field="status")
        controller, collection = service.controller, service.collection
        failures = {
            "network": controller.network_failure or _silence(controller.delays),
            "snapshots": controller.snapshot_failure,
            "collecting": None if collection is None else collection.failure,
        }
        failing = {name: str(failure) for name, failure in failures.items() if failure is not None}
        answer = {
            "status": "degraded" if failing else "ok",
            "version": pleroma.__version__,
            "position": controller.position,
        }
        names = service.plane.brokers()
        return json_response(answer | failing | ({"brokers": names} if names else {}))

    pages: asyncio.Future[_DocPages] | None = None

    async def documentation(app: FastAPI) -> _DocPages:
        """Both are made once, in a thread: that takes a while, and anybody may ask."""
        nonlocal pages
        pages = pages or asyncio.ensure_future(asyncio.to_thread(_document, app))
        return await asyncio.shield(pages)

    @router.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return HTMLResponse((await documentation(request.app)).page)

    @router.get("/openapi.json", include_in_schema=False)
    async def document(request: Request) -> Response:
        return Response((await documentation(request.app)).document, media_type="application/json")

    @router.get(
        "/metrics",
        summary="For Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        await service.controller.settled()
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


class _DocPages(NamedTuple):
    document: bytes
    page: bytes


def _document(app: FastAPI) -> _DocPages:
    document = app.openapi()
    return _DocPages(to_bytes(document), page(document).encode())


def _silence(delays: Mapping[SwitchId, SwitchDelay]) -> str | None:
    """Which switch has been silent for longest, if for long."""
    if not delays:
        return None
    switch, delay = max(delays.items(), key=lambda each: each[1].seconds)
    if delay.seconds < UNCONFIRMED_TOO_LONG_SECONDS:
        return None
    return f"{switch} has not confirmed {delay.operations} changes, the oldest for {delay.seconds:.0f} s"

"""Health, metrics and the documentation page. They need no token, so they show nothing about single principals."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, Response

import pleroma
from pleroma.errors import NotReady
from pleroma.service.http.context import Service
from pleroma.service.http.docs_page import CONTENT_SECURITY_POLICY, page
from pleroma.service.http.json_answers import json_response, to_bytes
from pleroma.service.http.metrics import CONTENT_TYPE
from pleroma.service.http.models.health import HealthAnswer
from pleroma.service.http.problems import problem_response


def health(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/health", response_model=HealthAnswer, summary="Whether all is as it should be, and if not, why")
    async def condition() -> Response:
        status, reasons = service.health.report()
        answer = {
            "status": status,
            "version": pleroma.__version__,
            "position": service.controller.position,
            "reasons": [each._asdict() for each in reasons],
        }
        names = service.plane.brokers()
        return json_response(answer | ({"brokers": names} if names else {}))

    @router.get("/health/live", status_code=204, summary="For a probe: whether the process answers")
    async def live() -> Response:
        return Response(status_code=204)

    @router.get("/health/ready", status_code=204, summary="For a probe: whether requests can be served")
    async def ready() -> Response:
        report = service.health.report()
        if report.status == "failing":
            return problem_response(NotReady(report.line, field="status", value=report.status))
        return Response(status_code=204)

    pages: asyncio.Future[_DocPages] | None = None

    async def documentation(app: FastAPI) -> _DocPages:
        """Both are made once, in a thread: that takes a while, and anybody may ask."""
        nonlocal pages
        pages = pages or asyncio.ensure_future(asyncio.to_thread(_document, app))
        return await asyncio.shield(pages)

    @router.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Referrer-Policy": "no-referrer"}
        return HTMLResponse((await documentation(request.app)).page, headers=headers)

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
        await service.disk.look()
        await service.controller.settled()
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


class _DocPages(NamedTuple):
    document: bytes
    page: bytes


def _document(app: FastAPI) -> _DocPages:
    document = app.openapi()
    return _DocPages(to_bytes(document), page(document).encode())

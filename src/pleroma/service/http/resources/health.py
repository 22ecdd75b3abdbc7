"""Health, metrics and the documentation page. They need no token, so they show nothing about single principals."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

import pleroma
from pleroma.errors import SetupError
from pleroma.service.http.context import Service
from pleroma.service.http.docs_page import page
from pleroma.service.http.json_answers import json_response
from pleroma.service.http.metrics import CONTENT_TYPE
from pleroma.service.http.models.health import HealthAnswer


def health(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/health", response_model=HealthAnswer, summary="Whether the service is up")
    async def up() -> Response:
        if service.closing.is_set():
            raise SetupError("the service is about to stop", field="status")
        controller, collection = service.controller, service.collection
        failures = {
            "network": controller.network_failure,
            "snapshots": controller.snapshot_failure,
            "collecting": None if collection is None else collection.failure,
        }
        failing = {name: str(failure) for name, failure in failures.items() if failure is not None}
        answer = {
            "status": "degraded" if failing else "ok",
            "version": pleroma.__version__,
            "position": controller.position,
        }
        return json_response(answer | failing)

    @router.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return HTMLResponse(page(request.app.openapi()))

    @router.get(
        "/metrics",
        summary="For Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router

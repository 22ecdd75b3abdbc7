"""A whole service for the tests: a real controller and a real live network in a folder of the test's own.

Every answer that passes `Api` is checked against the OpenAPI document: its status is declared and its body has the
declared shape.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from pleroma.control import Controller, CreatePrincipal, PlanChangeTiming
from pleroma.routing import build
from pleroma.service import ServiceSettings, create_app
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.http.tokens import digest
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.switches.live.live_network import LiveNetwork
from support.service.openapi_document import OpenApiDocument

ADMIN = "plr_the-token-of-the-tests"
UNLIMITED = ServiceSettings(requests_per_s=1e6, anonymous_per_s=1e6)


class Api:
    """Requests as one principal."""

    def __init__(self, app: FastAPI, token: str | None = ADMIN, client: httpx.AsyncClient | None = None) -> None:
        self.app = app
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = client or httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://test", headers=headers
        )
        self.document = OpenApiDocument.of(app)

    def as_(self, token: str | None) -> "Api":
        return Api(self.app, token)

    async def __call__(self, method: str, path: str, expect: int | None = None, **more: Any) -> httpx.Response:
        answer = await self.client.request(method, path, **more)
        self.document.check(method, path, answer)
        if expect is not None:
            assert answer.status_code == expect, (method, path, answer.status_code, answer.text)
        return answer

    async def get(self, path: str, expect: int = 200, **more: Any) -> Any:
        return (await self("GET", path, expect, **more)).json()

    async def post(self, path: str, data: object, expect: int = 201, **more: Any) -> Any:
        answer = await self("POST", path, expect, json=data, **more)
        return answer.json() if answer.content else None

    async def error(self, method: str, path: str, status: int, code: str, **more: Any) -> Any:
        """A refusal, in the one shape."""
        error = (await self(method, path, status, **more)).json()["error"]
        assert error["code"] == code, error
        return error

    async def health(self) -> tuple[str, dict[str, str]]:
        """The status of the service, and the reasons for it by part."""
        said = await self.get("/health")
        return said["status"], {each["part"]: each["reason"] for each in said["reasons"]}

    async def principal(self, name: str, role: str = "both", **rights: object) -> "Api":
        """A new principal, and requests as it."""
        made = await self.post("/v1/principals", {"name": name, "role": role, **rights})
        return self.as_(made["token"])

    async def subscribe(self, filter: str = "true", host: str = "h2", **more: object) -> Any:
        return await self.post("/v1/subscriptions", {"schema": "stock", "filter": filter, "host": host, **more})

    async def advertise(self, filter: str = "true", host: str = "h1", **more: object) -> Any:
        return await self.post("/v1/advertisements", {"schema": "stock", "filter": filter, "host": host, **more})


@asynccontextmanager
async def world(
    folder: Path,
    *,
    topology: str = "testbed",
    settings: ServiceSettings = UNLIMITED,
    schema: bool = True,
    timing: PlanChangeTiming | None = None,
    limit: int | None = None,
    keys: EventKeys | None = None,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[Api]:
    """Requests of the administrator to a service with the stock schema. Tokens end by the clock."""
    shape = build(topology).with_limit(limit)
    async with (
        LiveNetwork(shape, loopback=True, guarded=True) as network,
        await Controller.open(folder, shape, network, timing=timing) as controller,
    ):
        if "admin" not in controller.state.principals:
            await controller.submit(CreatePrincipal("admin", "admin", digest(ADMIN)))
        api = Api(create_app(controller, EmbeddedPlane(network), settings, keys=keys, clock=clock))
        async with api.client:
            if schema and "stock" not in controller.state.schemas:
                await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA})
            yield api

"""A whole service for the tests: a real controller and a real live network in a folder of the test's own.

Every answer that passes `Api` is checked against the OpenAPI document: its status is declared and its body has the
declared shape.
"""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import httpx
import jsonschema_rs

from pleroma.control import Controller, CreatePrincipal
from pleroma.routing import build
from pleroma.service import ServiceSettings, create_app
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.tokens import digest
from pleroma.switches.live.live_network import LiveNetwork

ADMIN = "plr_the-token-of-the-tests"
UNLIMITED = ServiceSettings(requests_per_s=1e6, anonymous_per_s=1e6)


def run(main, seconds=30):
    """Run a coroutine function to its end, and not for ever."""
    return asyncio.run(asyncio.wait_for(main(), seconds))


class Api:
    """Requests as one principal."""

    def __init__(self, app, token=ADMIN, client=None):
        self.app = app
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = client or httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://test", headers=headers
        )
        self.document = Document.of(app)

    def as_(self, token):
        return Api(self.app, token)

    async def __call__(self, method, path, expect=None, **more):
        answer = await self.client.request(method, path, **more)
        self.document.check(method, path, answer)
        if expect is not None:
            assert answer.status_code == expect, (method, path, answer.status_code, answer.text)
        return answer

    async def get(self, path, expect=200, **more):
        return (await self("GET", path, expect, **more)).json()

    async def post(self, path, data, expect=201, **more):
        answer = await self("POST", path, expect, json=data, **more)
        return answer.json() if answer.content else None

    async def error(self, method, path, status, code, **more):
        """A refusal, in the one shape."""
        error = (await self(method, path, status, **more)).json()["error"]
        assert error["code"] == code, error
        return error

    async def principal(self, name, role="both", **rights):
        """A new principal, and requests as it."""
        made = await self.post("/v1/principals", {"name": name, "role": role, **rights})
        return self.as_(made["token"])

    async def subscribe(self, filter="true", host="h2", **more):
        return await self.post("/v1/subscriptions", {"schema": "stock", "filter": filter, "host": host, **more})

    async def advertise(self, filter="true", host="h1", **more):
        return await self.post("/v1/advertisements", {"schema": "stock", "filter": filter, "host": host, **more})


class Document:
    """The OpenAPI document as a judge of answers."""

    _only = None

    def __init__(self, document):
        self.document = document
        self.paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"), path) for path in document["paths"]]
        self.validators = {}

    @classmethod
    def of(cls, app):
        """The same for every application, and long in the making."""
        if cls._only is None:
            cls._only = cls(app.openapi())
        return cls._only

    def template(self, path):
        plain = [template for pattern, template in self.paths if pattern.fullmatch(path)]
        return min(plain, key=lambda template: template.count("{"), default=None)

    def check(self, method, path, answer):
        template = self.template(httpx.URL(path).path)
        operation = self.document["paths"].get(template, {}).get(method.lower())
        status = answer.status_code
        if operation is None:
            assert status >= 400
            self._validate("error", {"$ref": "#/components/schemas/ErrorAnswer"}, answer)
            return
        assert str(status) in operation["responses"], f"{method} {template} does not declare {status}: {answer.text}"
        content = operation["responses"][str(status)].get("content", {})
        if not content:
            assert answer.content == b""
            return
        kind = answer.headers["content-type"].split(";")[0]
        assert kind in content, (method, template, status, kind)
        if kind == "application/json":
            self._validate((method, template, status), content[kind]["schema"], answer)

    def _validate(self, name, schema, answer):
        if name not in self.validators:
            whole = {**schema, "components": self.document["components"]}
            self.validators[name] = jsonschema_rs.validator_for(whole)
        self.validators[name].validate(json.loads(answer.content))


@asynccontextmanager
async def world(folder, *, topology="testbed", settings=UNLIMITED, schema=True):
    """Requests of the administrator to a service with the stock schema."""
    async with (
        LiveNetwork(build(topology), loopback=True) as network,
        await Controller.open(folder, build(topology), network) as controller,
    ):
        if "admin" not in controller.state.principals:
            await controller.submit(CreatePrincipal("admin", "admin", digest(ADMIN)))
        api = Api(create_app(controller, network, settings))
        async with api.client:
            if schema and "stock" not in controller.state.schemas:
                await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA})
            yield api

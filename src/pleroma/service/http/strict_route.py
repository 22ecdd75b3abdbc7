"""Bodies read strictly: standard JSON, without NaN, halves of surrogate pairs or bottomless nesting.

Most requests that change something have a body and no other parameters. They go straight from the path to the route,
and from the bytes to the model to the handler: what FastAPI does for any kind of parameter takes longer than the
request itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pydantic_core
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from pleroma.errors import BadRequest

Handler = Callable[..., Coroutine[Any, Any, Response]]
Answer = Callable[[Request, Exception], Coroutine[Any, Any, Response | None]]
"""The response to an error that was foreseen; None for any other error."""


def strict_json(body: bytes) -> Any:
    return pydantic_core.from_json(body, allow_inf_nan=False)


class StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return strict_json(await self.body())
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


class StrictRoute(APIRoute):
    def __init__(self, path: str, endpoint: Handler, **more: Any) -> None:
        super().__init__(path, endpoint, **more)
        self.is_straight = False
        read = self.dependant
        others = (read.path_params, read.query_params, read.header_params, read.cookie_params, read.dependencies)
        if len(read.body_params) == 1 and not any(others) and read.request_param_name:
            self.is_straight = True
            (body,) = read.body_params
            self.app = _straight(endpoint, read.request_param_name, body.name, body.field_info.annotation)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            await strict.body()  # now, for nothing else is to come between that and the handler
            await _settled(request.scope)
            return await handle(strict)

        return strictly


class StraightRoutes:
    """The innermost middleware: hands a request whose method and path are those of a straight route to that route."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], answer: Answer) -> None:
        self._app = app
        self._answer = answer
        self._routes = {
            (method, each.path): each
            for each in routes
            if isinstance(each, StrictRoute) and each.is_straight
            for method in each.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        try:
            await route.app(scope, receive, send)
        except Exception as error:
            response = await self._answer(Request(scope), error)
            if response is None:
                raise
            await response(scope, receive, send)


async def _settled(scope: Scope) -> None:
    """Wait while a large command changes the state: handlers read it, and could only stand still until it is done."""
    await scope["app"].state.service.controller.settled()


def _straight(
    endpoint: Handler, request_name: str, body_name: str, model: Any
) -> Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]:
    """The ASGI application of a handler that takes a request and a body."""
    assert issubclass(model, BaseModel)  # noqa: S101
    validate = model.__pydantic_validator__.validate_python

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        kind = request.headers.get("content-type", "")
        body = await request.body()
        if not body:
            raise BadRequest("a body is required", field="body")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise BadRequest("a body is sent as Content-Type: application/json", field="content-type", value=kind)
        try:
            read = validate(strict_json(body))
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from None
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}", field="body") from None
        await _settled(scope)
        response = await endpoint(**{request_name: request, body_name: read})
        await response(scope, receive, send)

    return app

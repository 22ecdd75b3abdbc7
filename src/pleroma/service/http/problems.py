"""Failures, always in one shape: {"error": {"code", "reason", "field", "value", "allowed"?, "position"?}}.

The code is the name of the error in `pleroma.errors`, in lower case; the status follows from its place in the tree.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from pleroma import errors
from pleroma.errors import BadRequest, PleromaError, shown
from pleroma.service.http.json_answers import json_response

_STATUS: Mapping[type[PleromaError], int] = {
    errors.ContentError: 400,
    errors.IndexingError: 400,
    errors.BadRequest: 400,
    errors.NotAuthenticated: 401,
    errors.ControlError: 400,
    errors.NotAllowed: 403,
    errors.LimitReached: 403,  # no 429: it does not pass with time
    errors.NotFound: 404,
    errors.NotThere: 404,
    errors.AlreadyThere: 409,
    errors.KeyConflict: 409,
    errors.PlanChanging: 409,
    errors.PlanMoved: 409,
    errors.PlanTooOld: 409,
    errors.NoTree: 409,
    errors.TuningError: 409,
    errors.NotInstalled: 503,
    errors.NotLeading: 503,
    errors.OtherControl: 503,
    errors.ControllerClosed: 503,
    errors.TooLarge: 413,
    errors.TooFast: 429,
    errors.DiskFull: 507,
    errors.PleromaError: 503,
}
_MAX_SHOWN_CHARACTERS = 200
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")

log = structlog.get_logger("pleroma.service")


def status_of(error: PleromaError) -> int:
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def code_of(error: PleromaError) -> str:
    return _WORD.sub("_", type(error).__name__).lower()


def problem_body(error: PleromaError) -> dict[str, Any]:
    """What tells of a failure: as the `error` of an answer, or of one item in it."""
    more: dict[str, Any] = {}
    if (allowed := getattr(error, "allowed", None)) is not None:
        more["allowed"] = str(allowed)
    if (position := getattr(error, "position", None)) is not None:
        more["position"] = position
    field, value = error.field, error.value
    if isinstance(error, errors.LogError):  # its field and value name files of the controller
        field, value = "log", None
    return _body(code_of(error), error.reason, field, value) | more


def problem_response(error: PleromaError) -> Response:
    """The answer to a request that failed with this error."""
    headers = {}
    if isinstance(error, errors.TooFast):
        headers["Retry-After"] = str(math.ceil(error.seconds))
    if isinstance(error, errors.NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    return json_response({"error": problem_body(error)}, status_of(error), headers)


def install(app: FastAPI) -> None:
    """Give every failure of the application this shape."""
    for kind, handle in _FORESEEN.items():
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(Exception, _unexpected)


async def answer(request: Request, error: Exception) -> Response | None:
    """The response to a request that failed with an error that was foreseen."""
    for kind, handle in _FORESEEN.items():
        if isinstance(error, kind):
            return await handle(request, error)
    return None


async def _pleroma_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, PleromaError)  # noqa: S101
    if status_of(error) >= 500:
        log.error("request failed", code=code_of(error), reason=error.reason, field=error.field)
    return problem_response(error)


async def _invalid(_: Request, error: Exception) -> Response:
    """The answer to a body or query that does not fit its model: the first complaint, with the path of the field."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return problem_response(complaint(error.errors()))


def complaint(found: Sequence[Mapping[str, Any]]) -> BadRequest:
    """The first of the things that a model does not like."""
    first = found[0]
    if first["type"] == "json_invalid":
        return BadRequest(f"the body is not JSON: {first['ctx']['error']}", field="body")
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    value = None if first["type"] == "missing" else first.get("input")
    return BadRequest(first["msg"].removeprefix("Value error, "), field=".".join(place) or "body", value=value)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    phrase = HTTPStatus(error.status_code).phrase
    code = phrase.lower().replace(" ", "_")
    known = {400: "bad_request", 404: "not_found", 413: "too_large"}
    reason = str(error.detail) if error.detail != phrase else f"{phrase.lower()}: no such address or method"
    return _problem(error.status_code, known.get(error.status_code, code), reason, headers=error.headers)


async def _gone(_: Request, __: Exception) -> Response:
    """The answer to somebody who left before all of its request had come. Nobody reads it, and nothing is wrong."""
    return _problem(400, "bad_request", "the connection ended before the body did", "body")


_FORESEEN: Mapping[type[Exception], Callable[[Request, Exception], Coroutine[Any, Any, Response]]] = {
    PleromaError: _pleroma_error,
    RequestValidationError: _invalid,
    HTTPException: _http_error,
    ClientDisconnect: _gone,
}


async def _unexpected(_: Request, error: Exception) -> Response:
    # as text: a renderer of tracebacks may show local variables, and one of them holds a token
    log.error("unexpected failure", kind=type(error).__name__, traceback="".join(traceback.format_exception(error)))
    return _problem(500, "internal", "an unexpected failure; the log of the service says more")


def _problem(
    status: int,
    code: str,
    reason: str,
    field: str | None = None,
    value: object = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    return json_response({"error": _body(code, reason, field, value)}, status, headers)


def _body(code: str, reason: str, field: str | None, value: object) -> dict[str, Any]:
    return {"code": code, "reason": reason, "field": _presentable(field), "value": _presentable(value)}


def _presentable(value: object) -> object:
    """The value as it came if it is a short plain one, else a description of it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 64 else shown(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else shown(value)
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN_CHARACTERS else f"{value[:_MAX_SHOWN_CHARACTERS]}…"
    return shown(value)

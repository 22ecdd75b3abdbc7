"""The OpenAPI document: what FastAPI derives from the routes, with the errors and the tokens of this API.

FastAPI would promise a 422 answer of its own shape for every operation. Here every operation promises the one shape of
errors, for the statuses that it can have.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pleroma.service.http.gate import OPEN_PATHS
from pleroma.service.http.models.problems import ErrorAnswer

_ALWAYS = {
    "400": "The request is not understood: `field` and `value` say where",
    "401": "No token, or one that nobody has",
    "404": "Nothing there that the caller may see",
    "413": "The body is too large",
    "429": "Too many requests; Retry-After says when to go on",
    "503": "The controller or the network cannot do it now",
}
_GUARDED = {"403": "Beyond the rights or limits of the caller; `allowed` says what would be allowed"}
_CHANGES = {
    "409": "The name is taken, the key belongs to another request, a plan is changing, has moved on, or is too old",
    "507": "The disk is full; nothing was changed",
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer", "minimum": 0}}}
_CHANGING = ("post", "put", "patch", "delete")


def document(app: FastAPI) -> dict[str, Any]:
    """The document of an application, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _made(app)
    return app.openapi_schema


def _made(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    shape = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(shape.pop("$defs", {}))
    schemas["ErrorAnswer"] = shape
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _complete(operation, guarded=path not in OPEN_PATHS, changing=method in _CHANGING)
    return made


def _complete(operation: dict[str, Any], *, guarded: bool, changing: bool) -> None:
    responses = operation.setdefault("responses", {})
    responses.pop("422", None)
    possible = {status: _ALWAYS[status] for status in ("429", "503")}
    if guarded:
        operation["security"] = [{"token": []}]
        possible = {**_ALWAYS, **_GUARDED, **(_CHANGES if changing else {})}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
    for status, what in sorted(possible.items()):
        answer: dict[str, Any] = {"description": what, "content": content}
        responses[status] = answer | ({"headers": _RETRY_AFTER} if status == "429" else {})

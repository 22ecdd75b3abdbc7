"""Answers as bytes. The models describe them in the OpenAPI document and are not run over each: the tests do that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_bytes(data: Any) -> bytes:
    return _encode(data).encode(
        errors="replace"
    )  # halves of characters, which names in old logs may hold, have no JSON


class _Json(Response):
    """As the class it is made from, without looking for what is never there."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    response = _Json(to_bytes(data), status)
    if headers:
        response.headers.update(headers)
    return response

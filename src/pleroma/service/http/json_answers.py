"""Answers as bytes. The models describe answers in the OpenAPI document; only tests check answers against them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_bytes(data: Any) -> bytes:
    # names in old logs may hold halves of surrogate pairs, which no JSON can have
    return _encode(data).encode(errors="replace")


class _Json(Response):
    """A response with a JSON body, made without the checks for headers that it never has."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]


def bytes_response(body: bytes, status: int = 200) -> Response:
    """A response with bytes that are JSON already."""
    return _Json(body, status)


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    response = _Json(to_bytes(data), status)
    if headers:
        response.headers.update(headers)
    return response

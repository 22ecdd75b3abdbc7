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


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_bytes(data), status, headers, media_type="application/json")

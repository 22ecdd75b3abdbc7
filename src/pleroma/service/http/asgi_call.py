"""One request to the application, from bytes to bytes, without a server in between."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.api_terms import ANSWER_HEADERS, REQUEST_HEADERS


async def call_app(app: ASGIApp, request: ApiRequest, client: tuple[str, int], **known: Any) -> ApiResponse:
    """The answer of the application. `known` goes into the scope, where no client can put anything."""
    sent = False
    status, headers, chunks = 500, list[tuple[str, str]](), list[bytes]()

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()  # for ever: the caller does not disconnect
        sent = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            named = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message["headers"])
            headers.extend((name, value) for name, value in named if name in ANSWER_HEADERS)
        else:
            chunks.append(message.get("body", b""))

    await app({**_scope(request, client), **known}, receive, send)
    return ApiResponse(status, tuple(headers), b"".join(chunks))


def _scope(request: ApiRequest, client: tuple[str, int]) -> Scope:
    path, _, query = request.path.partition("?")
    asked = [(name.encode(), value.encode()) for name, value in request.headers if name in REQUEST_HEADERS]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*asked, (b"content-length", b"%d" % len(request.body))],
        "client": client,
        "server": None,
        "state": {},
    }

"""Requests that a gate does not answer itself: they go to the process that leads, and its answers come back.

The caller's token goes along, so the leading process decides what the caller may do. Streams are passed on as they
come. The leading process tells how far the log was when it answered, and a gate passes on that something was changed
when it knows of it itself: a schema that was made through a gate can be subscribed to there.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx
from starlette.types import Receive, Scope, Send

from pleroma.control.log.durable_log import Position
from pleroma.control.state.command import Lead
from pleroma.errors import ControllerAway, NotReady, TooLarge
from pleroma.service.http.problems import problem_response
from pleroma.service.roles.told_position import POSITION_HEADER, RELAYED_HEADER

LEAD_CONNECT_SECONDS = 2.0
LEAD_ANSWER_SECONDS = 30.0
"""How long the leading process may take to begin its answer, and between two parts of it."""
CATCH_UP_SECONDS = 2.0
"""How long an answer waits until the gate knows what the leading process knew."""
_STREAM_PATH = "/v1/stream"
_READING_METHODS = ("GET", "HEAD")
_OF_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"host"}
)
"""Headers that are about a connection, and not about what it carries."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class RelayedRequests:
    """An ASGI application. `lead` tells which process leads, as far as the log says."""

    def __init__(
        self,
        lead: Callable[[], Lead | None],
        max_body_bytes: int,
        reached: Callable[[Position], Awaitable[None]],
        authorities: ssl.SSLContext | None = None,
    ) -> None:
        """`reached` waits until this gate knows what is in the log up to a position.

        `authorities` are those whose certificates are good for the leading process, if it speaks HTTPS.
        """
        self._lead = lead
        self._max_body_bytes = max_body_bytes
        self._reached = reached
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        timeout = httpx.Timeout(LEAD_ANSWER_SECONDS, connect=LEAD_CONNECT_SECONDS)
        self._client = httpx.AsyncClient(limits=limits, timeout=timeout, verify=authorities or True, trust_env=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lead = self._lead()
        if lead is None or any(name == RELAYED_HEADER for name, _ in scope["headers"]):
            await problem_response(NotReady("no process leads at the moment", field="lead"))(scope, receive, send)
            return
        body = await self._body(receive)
        if body is None:
            return
        if len(body) > self._max_body_bytes:
            reason = f"a request has at most {self._max_body_bytes} bytes"
            await problem_response(TooLarge(reason, field="body"))(scope, receive, send)
            return
        request = self._request(lead, scope, body)
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            why = f"{lead.holder}, which leads, does not answer: {error or type(error).__name__}"
            is_not_done = isinstance(error, _NOT_SENT)
            kind = NotReady if is_not_done else ControllerAway  # then it may have been carried out
            await problem_response(kind(why, field="lead", value=lead.url))(scope, receive, send)
            return
        try:
            if scope["method"] not in _READING_METHODS:
                await self._catch_up(answer)
            await self._pass_on(answer, receive, send)
        finally:
            await answer.aclose()

    async def _catch_up(self, answer: httpx.Response) -> None:
        """Wait until this gate knows what the leading process has answered by, or for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self._reached(Position(int(answer.headers.get(POSITION_HEADER.decode(), 0))))

    async def _body(self, receive: Receive) -> bytes | None:
        """The body of a request, or the first part of one that is too large; None if the caller has gone."""
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body_bytes or not message.get("more_body", False):
                return b"".join(parts)

    def _request(self, lead: Lead, scope: Scope, body: bytes) -> httpx.Request:
        left_out = _OF_ONE_CONNECTION | {b"content-length"}  # the client counts it
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in left_out]
        headers.append((RELAYED_HEADER, b"1"))
        path = scope.get("raw_path", scope["path"].encode()).decode("ascii")
        query = scope["query_string"].decode("ascii")
        url = f"{lead.url}{path}?{query}" if query else f"{lead.url}{path}"
        is_stream = scope["path"] == _STREAM_PATH
        timeout = {"connect": LEAD_CONNECT_SECONDS, "read": None if is_stream else LEAD_ANSWER_SECONDS}
        extensions = {"timeout": timeout | {"write": LEAD_ANSWER_SECONDS, "pool": LEAD_ANSWER_SECONDS}}
        return httpx.Request(scope["method"], url, headers=headers, content=body, extensions=extensions)

    async def _pass_on(self, answer: httpx.Response, receive: Receive, send: Send) -> None:
        left_out = _OF_ONE_CONNECTION | {POSITION_HEADER, b"date"}  # this server has a date of its own
        headers = [(name, value) for name, value in answer.headers.raw if name.lower() not in left_out]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        gone = asyncio.ensure_future(_disconnected(receive))
        passing = asyncio.ensure_future(self._parts(answer, send))
        try:
            await asyncio.wait((gone, passing), return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
        finally:
            for each in (gone, passing):
                each.cancel()
                with suppress(asyncio.CancelledError, httpx.HTTPError):
                    await each

    async def _parts(self, answer: httpx.Response, send: Send) -> None:
        async for part in answer.aiter_raw():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

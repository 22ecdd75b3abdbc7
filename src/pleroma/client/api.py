"""The controller's HTTP API as the client uses it: requests that are tried again, answers or errors of our own tree.

Only what may be repeated is tried again: reading, deleting, attaching, and registrations, which carry a key by which
the controller knows a repetition.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from pleroma.client.backoff import Backoff
from pleroma.errors import ClientClosed, ClientError, ControllerAway, RequestRefused

REQUEST_SECONDS = 10.0
STREAM_SILENCE_SECONDS = 30.0
"""Seconds without a byte on the stream, which has a heartbeat every ten, after which it counts as broken."""
MAX_CONNECTIONS = 16
NOT_MODIFIED = 304
INBAND = "inband"
UDP = "udp"
BUSY_STATUSES = (429, 502, 503, 504)
"""Statuses that mean: ask again later."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    etag: str | None


class Api:
    """`inband://` and `udp://` take the name of a principal besides its token; `host` is what this host wants to be."""

    def __init__(self, url: str, token: str | None, principal: str | None = None, host: str = "") -> None:
        self.has_streams = not str(url).startswith((f"{INBAND}:", f"{UDP}:"))
        self.host: str | None = None
        """Where the controller is asked, if that is one place."""
        if not self.has_streams:
            self.url = url
            self._http, self.host = _in_datagrams(url, token, principal, host)
            return
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            base = httpx.URL(url)
            if base.scheme not in ("http", "https") or not base.host:
                raise httpx.InvalidURL("expected http://host:port")
            self._http = httpx.AsyncClient(
                base_url=base,
                headers=headers,
                timeout=REQUEST_SECONDS,
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
                verify=base.scheme == "https",  # reading the certificates takes longer than connecting to loopback
            )
        except (httpx.InvalidURL, TypeError, ValueError) as error:
            raise ClientError(f"{url!r} is no address of a controller: {error}", field="url", value=url) from None
        self.url = f"{base.scheme}://{base.netloc.decode()}"
        self.host = base.host

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self, method: str, path: str, body: Any = None, *, patience: float = 0.0, etag: str | None = None
    ) -> Answer:
        """One request; where nobody answers, or not now, again and again for `patience` seconds."""
        if self._http.is_closed:
            raise ClientClosed("the client is closed")
        loop, backoff = asyncio.get_running_loop(), Backoff(most=1.0)
        end = loop.time() + patience
        while True:
            try:
                return await self._once(method, path, body, etag)
            except (ControllerAway, RequestRefused) as error:
                asked_for = getattr(error, "retry_after", 0.0)
                pause = backoff.pause(at_least=asked_for)
                if not is_temporary(error) or loop.time() + pause > end:
                    raise
            await asyncio.sleep(pause)

    async def _once(self, method: str, path: str, body: Any, etag: str | None) -> Answer:
        headers = {"If-None-Match": etag} if etag else {}
        try:
            response = await self._http.request(method, path, json=body, headers=headers)
        except httpx.TransportError as error:
            raise ControllerAway(
                f"the controller at {self.url} does not answer: {_short(error)}", field="url"
            ) from None
        return Answer(response.status_code, answered(response, self.url), response.headers.get("etag"))

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Server-sent events, as (type, data). It ends when the connection does."""
        timeout = httpx.Timeout(REQUEST_SECONDS, read=STREAM_SILENCE_SECONDS)
        try:
            async with self._http.stream("GET", path, timeout=timeout) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise refusal(response)
                yield parsed(response.aiter_lines())
        except httpx.TransportError as error:
            raise ControllerAway(f"the stream of {self.url} broke: {_short(error)}", field="url") from None


def _in_datagrams(
    url: str, token: str | None, principal: str | None, host: str
) -> tuple[httpx.AsyncClient, str | None]:
    from pleroma.client.inband.transport import InbandAddress, InbandTransport
    from pleroma.client.inband.udp_address import UdpAddress

    if url.startswith(f"{UDP}:"):
        place = UdpAddress.parse(url)
        transport, where = place.transport(principal, token), place.host
    else:
        way = InbandAddress.parse(url)
        transport, where = InbandTransport(replace(way, host=way.host or host), principal, token), None
    return httpx.AsyncClient(transport=transport, base_url="http://controller", timeout=REQUEST_SECONDS), where


def is_temporary(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ControllerAway) or (isinstance(error, RequestRefused) and error.status in BUSY_STATUSES)


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    """Lines to events. What is no JSON is passed over."""
    kind, data = "message", list[str]()
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            continue
        try:
            item = json.loads("\n".join(data))
        except ValueError:
            item = None
        if item is not None:
            yield kind, item
        kind, data = "message", []


def answered(response: httpx.Response, url: str) -> Any:
    """What the controller says. That it refuses is raised, and that whoever answers at this address is none."""
    if response.status_code >= 400:
        raise refusal(response)
    try:
        return response.json() if response.content else None
    except ValueError:
        raise ControllerAway(f"{url} does not answer like a controller", field="url") from None


def refusal(response: httpx.Response) -> RequestRefused:
    """The controller's error, or as much of one as there is."""
    try:
        body = response.json()
    except ValueError:
        body = None
    given = body.get("error") if isinstance(body, Mapping) else None
    given = given if isinstance(given, Mapping) else {}
    error = RequestRefused(
        str(given.get("reason") or f"status {response.status_code}"),
        status=response.status_code,
        code=str(given.get("code") or "unknown"),
        field=given.get("field"),
        value=given.get("value"),
        allowed=given.get("allowed"),
    )
    try:
        error.retry_after = max(float(response.headers.get("retry-after", 0)), 0.0)
    except ValueError:
        error.retry_after = 0.0
    return error


def _short(error: Exception) -> str:
    return str(error) or type(error).__name__

"""The controller's API as programs call it: requests that are tried again, answers or errors of our own tree.

`ControllerApi` is the only client of the API: applications, the command line and the pipeline use it, the latter two
in its blocking form (`blocking_api`). It speaks HTTP, over TCP or to the Unix socket of a host agent, and in-band
messages to `inband://` and `udp://` addresses.

Only a request that may be repeated is tried again: reading, deleting, attaching, and registering, where a key tells
the controller that a request is a repetition. Of several controllers the next is tried when one cannot be reached or
does not serve; a request that may not be repeated goes to another only if it was surely not carried out.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from pleroma.client.agent_address import AGENT_SCHEME, AgentAddress
from pleroma.client.backoff import Backoff
from pleroma.client.controller_ring import AskedController, ControllerRing, urls_of
from pleroma.client.inband.inband_address import INBAND_SCHEME, InbandAddress
from pleroma.client.inband.transport import InbandTransport
from pleroma.client.inband.udp_address import UDP_SCHEME, UdpAddress
from pleroma.errors import ClientClosed, ClientError, ControllerAway, RequestRefused
from pleroma.wire.api_terms import CA_VARIABLE, PRINCIPAL_HEADER

REQUEST_SECONDS = 10.0
STREAM_SILENCE_SECONDS = 30.0
"""Time without a byte on the stream, which has a heartbeat every ten seconds, after which it counts as broken."""
MAX_CONNECTIONS = 16
ITEMS_PER_PAGE = 1000
BUSY_STATUSES = (429, 502, 503, 504)
"""Statuses that mean: ask again later."""
ELSEWHERE_STATUSES = (502, 503, 504)
"""Statuses that mean: another controller may be able to."""
EVERYWHERE_CODES = ("not_installed",)
"""Codes of errors that every controller would give: it is the network that they wait for."""
NOT_DONE_CODES = ("controller_closed", "not_leading", "not_ready")
"""Codes of errors that say that nothing was done."""
CONNECT_SECONDS = 3.0
"""How long one of several controllers may take to accept a connection."""
READING_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    etag: str | None
    host: str | None = None
    """Of the controller that answered, if its address names one."""
    url: str = ""


class ControllerApi:
    """`url` has the addresses of several controllers with commas between them, or one.

    `inband://` and `udp://` need the name of a principal besides its token, and so does an agent that asks in-band.
    `wanted_host` is the name that this machine asks to have as a host, where `inband://` introduces it. `ca` is a file
    with the authority of an `https://` controller; without it, that of the variable PLEROMA_CA or those of the system
    are trusted. `seconds` is how long one request may take.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        principal: str | None = None,
        wanted_host: str = "",
        *,
        ca: str | Path | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        if token and not (token.isascii() and token.isprintable()):
            raise ClientError("is no token: it has letters that no token has", field="token")
        self.has_streams = False
        self.has_batches = False
        """Whether many registrations may go in one request: not through agents, which read the answers, nor in-band."""
        if str(url).startswith(f"{UDP_SCHEME}:"):
            udp = UdpAddress.parse(url)
            asked = [AskedController(url, udp.host, _client_of(udp.transport(principal, token), seconds))]
        elif str(url).startswith(f"{AGENT_SCHEME}:"):
            path = AgentAddress.parse(url).path
            asked = [AskedController(url, path, _agent_client(path, principal, token, seconds))]
        elif str(url).startswith(f"{INBAND_SCHEME}:"):
            transport = InbandAddress.parse(url).transport(principal, token, wanted_host)
            asked = [AskedController(url, None, _client_of(transport, seconds))]
        else:
            self.has_streams = self.has_batches = True
            asked = http_controllers(url, token, seconds, ca=ca)
        self._ring = ControllerRing(asked)

    @property
    def url(self) -> str:
        """Of the controller that is asked at the moment."""
        return self._ring.current.url

    @property
    def host(self) -> str | None:
        """The host that the controller is asked at, if the address names one; of an agent, the path of its socket."""
        return self._ring.current.host

    async def close(self) -> None:
        await self._ring.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        patience: float = 0.0,
        etag: str | None = None,
    ) -> Answer:
        """Make a request. While the controller does not answer or is busy, it is repeated for `patience` seconds.

        Only what may be repeated has patience. Of several controllers each is tried once, without patience too.
        """
        if self._ring.current.http.is_closed:
            raise ClientClosed("the client is closed")
        loop, backoff = asyncio.get_running_loop(), Backoff(max_seconds=1.0)
        end = loop.time() + patience
        may_be_repeated = patience > 0 or method in READING_METHODS or (isinstance(body, Mapping) and "key" in body)
        failures: dict[AskedController, ControllerAway | RequestRefused] = {}
        while True:
            asked = self._ring.current
            try:
                return await self._ask_once(asked, method, path, body, parameters, etag)
            except (ControllerAway, RequestRefused) as error:
                failures[asked] = error
                if is_of_one_controller(error):
                    self._ring.move_on(asked)
                is_next = self._ring.current not in failures and (may_be_repeated or not _may_be_done(error))
                pause = backoff.pause(at_least=0.0 if is_next else getattr(error, "retry_after", 0.0))
                if not is_temporary(error) or (not is_next and loop.time() + pause > end):
                    raise _as_one(error, failures.values()) from None
            await asyncio.sleep(pause)

    async def pages(
        self, path: str, *, patience: float = 0.0, **parameters: Any
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """All items of a list, a page at a time."""
        parameters["limit"] = ITEMS_PER_PAGE
        while True:
            page = (await self.ask("GET", path, parameters=parameters, patience=patience)).body
            yield page["items"]
            if page["next"] is None:
                return
            parameters["after"] = page["next"]

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Server-sent events, as (type, data). The iterator ends when the connection does."""
        timeout = httpx.Timeout(REQUEST_SECONDS, read=STREAM_SILENCE_SECONDS)
        asked = self._ring.current
        try:
            async with asked.http.stream("GET", path, timeout=timeout) as response:
                if response.status_code >= 400:
                    await response.aread()
                    refused = refusal(response)
                    if is_of_one_controller(refused):
                        self._ring.move_on(asked)
                    raise refused
                yield parsed(response.aiter_lines())
        except httpx.RequestError as error:
            self._ring.move_on(asked)
            raise ControllerAway(f"the stream of {asked.url} broke: {_short(error)}", field="url") from None

    async def _ask_once(
        self,
        asked: AskedController,
        method: str,
        path: str,
        body: Any,
        parameters: Mapping[str, Any] | None,
        etag: str | None,
    ) -> Answer:
        headers = {"If-None-Match": etag} if etag else {}
        try:
            response = await asked.http.request(method, path, json=body, params=parameters, headers=headers)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            away = ControllerAway(f"no controller answers at {asked.url}: {_short(error)}", field="url")
            away.was_asked = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            raise away from None
        if response.status_code >= 400:
            raise refusal(response)
        try:
            content = response.json() if response.content else None
        except ValueError:
            raise ControllerAway(f"{asked.url} does not answer like a controller", field="url") from None
        return Answer(response.status_code, content, response.headers.get("etag"), asked.host, asked.url)


def http_controllers(
    address: str,
    token: str | None,
    seconds: float,
    connections: int = MAX_CONNECTIONS,
    *,
    ca: str | Path | None = None,
) -> list[AskedController]:
    """The controllers of an address: one, or several with commas between their URLs."""
    urls, asked = urls_of(address), []
    for url in urls:
        client, base = http_client(url, token, seconds, connections, ca=ca)
        if len(urls) > 1:
            client.timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        asked.append(AskedController(f"{base.scheme}://{base.netloc.decode()}", base.host, client))
    return asked


def http_client(
    url: str,
    token: str | None,
    seconds: float,
    connections: int = MAX_CONNECTIONS,
    *,
    ca: str | Path | None = None,
) -> tuple[httpx.AsyncClient, httpx.URL]:
    """A client of httpx for a controller's address, and that address; raises ClientError if it is none."""
    try:
        base = httpx.URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            raise httpx.InvalidURL("expected http://host:port")
        client = httpx.AsyncClient(
            base_url=base,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=seconds,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # not without https: reading the certificates takes longer than connecting to loopback
            verify=base.scheme == "https" and _trusted(ca or os.environ.get(CA_VARIABLE)),
        )
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise ClientError(f"{url!r} is no address of a controller: {error}", field="url", value=url) from None
    return client, base


def _agent_client(path: str, principal: str | None, token: str | None, seconds: float) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if principal:
        headers[PRINCIPAL_HEADER] = quote(principal)
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
    transport = httpx.AsyncHTTPTransport(uds=path, limits=limits)
    return httpx.AsyncClient(transport=transport, base_url="http://agent", headers=headers, timeout=seconds)


def _trusted(ca: str | Path | None) -> ssl.SSLContext | bool:
    """What a certificate is checked by: the authority in a file, or those that the system trusts."""
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ClientError(f"has no certificate of an authority: {error}", field=str(ca)) from None


def _client_of(transport: InbandTransport, seconds: float) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, base_url="http://controller", timeout=seconds)


def is_temporary(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ControllerAway) or (isinstance(error, RequestRefused) and error.status in BUSY_STATUSES)


def is_of_one_controller(error: Exception) -> bool:
    """Whether another controller may be able to do what this one does not."""
    if isinstance(error, RequestRefused):
        return error.status in ELSEWHERE_STATUSES and error.code not in EVERYWHERE_CODES
    return isinstance(error, ControllerAway)


def _may_be_done(error: ControllerAway | RequestRefused) -> bool:
    """Whether the request that ended so may have been carried out."""
    return error.code not in NOT_DONE_CODES if isinstance(error, RequestRefused) else error.was_asked


def _as_one(
    error: ControllerAway | RequestRefused, all_of_them: Iterable[ControllerAway | RequestRefused]
) -> ControllerAway | RequestRefused:
    """The last error, or if none of several controllers was there, one that names them all."""
    reasons = [each.reason for each in all_of_them if isinstance(each, ControllerAway)]
    if isinstance(error, RequestRefused) or len(reasons) < 2:
        return error
    return ControllerAway("; ".join(reasons), field="url")


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    """The lines of a stream as (type, data) of its events. Data that is not JSON is left out."""
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


def refusal(response: httpx.Response) -> RequestRefused:
    """The controller's error, with as many of its fields as the response has."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return refusal_of(response.status_code, body, _retry_after(response))


def refusal_of(status: int, body: Any, retry_after: float = 0.0) -> RequestRefused:
    """The error of an answer, or of one item in it, that has this status."""
    given = body.get("error") if isinstance(body, Mapping) else None
    given = given if isinstance(given, Mapping) else {}
    return RequestRefused(
        str(given.get("reason") or f"status {status}"),
        status=status,
        code=str(given.get("code") or "unknown"),
        field=given.get("field"),
        value=given.get("value"),
        allowed=given.get("allowed"),
        retry_after=retry_after,
    )


def _retry_after(response: httpx.Response) -> float:
    """The seconds that a response asks to wait; 0 if it asks for none, or not in seconds."""
    try:
        return max(float(response.headers.get("retry-after", 0)), 0.0)
    except ValueError:
        return 0.0


def _short(error: Exception) -> str:
    """Why a request could not be made, with what to do about it where that is known."""
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        return (
            f"its certificate is not trusted ({reason or text}); --ca, ca= or {CA_VARIABLE} name the authority's file"
        )
    if "WRONG_VERSION_NUMBER" in text:
        return "it speaks no TLS; perhaps its address begins with http://"
    return text

"""`inband://`: the controller's API for a program on a host that has no network but the switches' own.

It is a transport of httpx, so the API client sends requests as it does over HTTP. Streams cannot be carried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import parse_qsl, urlsplit

import httpx

from pleroma.client.inband.conversation import Conversation, Pipe, SessionLost
from pleroma.client.inband.multicast_pipes import open_multicast_pipes
from pleroma.errors import ClientError, UnknownName, WireError
from pleroma.wire.api_call import ApiRequest
from pleroma.wire.api_terms import REQUEST_HEADERS
from pleroma.wire.inband_messages import MAX_NAME_BYTES, RefusalReason, token_key
from pleroma.wire.ports import CONTROL_ADDRESSES

INBAND_SCHEME = "inband"
INBAND_ANSWER_SECONDS = 10.0
_OPTIONS = ("host", "interface")


@dataclass(frozen=True, slots=True)
class InbandAddress:
    """What an `inband://` address says: the controller's addresses, the interface, and the name to have as a host."""

    addresses: tuple[IPv4Address | IPv6Address, ...]
    interface: str | None = None
    host: str = ""

    @classmethod
    def parse(cls, url: str) -> InbandAddress:
        """`inband://`, or with an address, as in `inband://[ff05::706c]?host=kiosk&interface=eth0`."""
        try:
            split = urlsplit(url)
            named = split.hostname
            options = dict(parse_qsl(split.query, strict_parsing=True)) if split.query else {}
            addresses = tuple(CONTROL_ADDRESSES.values()) if not named else (ip_address(named),)
            if split.scheme != INBAND_SCHEME or split.port is not None or split.path not in ("", "/") or split.username:
                raise ValueError("expected inband:// or inband://ADDRESS")
        except ValueError as error:
            raise ClientError(f"{url!r} is no address of a controller: {error}", field="url", value=url) from None
        for name in options:
            if name not in _OPTIONS:
                raise UnknownName("option", name, _OPTIONS, field="url")
        if not all(each.is_multicast for each in addresses):
            raise ClientError(f"{named} is not a multicast address", field="url", value=url)
        return cls(addresses[::-1], options.get("interface"), options.get("host", ""))


class InbandTransport(httpx.AsyncBaseTransport):
    """`open_pipes` opens the pipes at the first request; by default, multicast sockets by the address."""

    def __init__(
        self,
        way: InbandAddress,
        principal: str | None,
        token: str | None,
        open_pipes: Callable[[Callable[[Pipe, bytes], None]], Sequence[Pipe]] | None = None,
    ) -> None:
        if not principal or not token:
            raise ClientError("in-band takes the name of a principal and its token", field="principal", value=principal)
        for field, name in (("principal", principal), ("host", way.host)):
            if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
                raise ClientError(f"a name has at most {MAX_NAME_BYTES} bytes", field=field, value=name)
        opening = open_pipes or (lambda received: open_multicast_pipes(way.addresses, way.interface, received))
        self._conversation = Conversation(principal, token_key(token), way.host, opening)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        seconds = request.extensions.get("timeout", {}).get("read") or INBAND_ANSWER_SECONDS
        body = await request.aread()
        headers = tuple((name, request.headers[name]) for name in REQUEST_HEADERS if name in request.headers)
        api_request = ApiRequest(request.method, request.url.raw_path.decode("ascii"), headers, body)
        conversation = self._conversation
        try:
            async with asyncio.timeout(seconds):
                answer = await conversation.ask(api_request)
        except TimeoutError:
            if conversation.is_greeted:
                raise httpx.ReadTimeout("no answer came through the network", request=request) from None
            raise httpx.ConnectTimeout(_silence(conversation.refusal), request=request) from None
        except SessionLost:
            raise httpx.ReadError("the controller has forgotten the session", request=request) from None
        except WireError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from None
        return httpx.Response(answer.status, headers=list(answer.headers), content=answer.body, request=request)

    async def aclose(self) -> None:
        self._conversation.close()


def _silence(refusal: RefusalReason | None) -> str:
    if refusal is RefusalReason.NOT_KNOWN:
        return "nobody answers but to say that the principal is not known, or has another token"
    return "no controller answers in this network"

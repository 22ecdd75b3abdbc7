"""Requests of programs to the controller: each is made as the program that asks, by HTTP or in-band.

Over HTTP the agent passes the program's token on. In-band it holds a conversation for each principal and token, with
proof of the token, which so never leaves the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from pleroma.client.api import ELSEWHERE_STATUSES, EVERYWHERE_CODES, REQUEST_SECONDS, http_controllers
from pleroma.client.controller_ring import ControllerRing
from pleroma.client.inband.inband_address import INBAND_SCHEME, InbandAddress
from pleroma.client.inband.transport import InbandTransport
from pleroma.client.inband.udp_address import UDP_SCHEME, UdpAddress
from pleroma.errors import ClientError, ControllerAway, LimitReached
from pleroma.host_agent.local_programs import Credentials
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.api_terms import ANSWER_HEADERS

MAX_CONVERSATIONS = 64
"""In-band conversations that are open at a time; the one that was not used for longest makes room."""
MAX_UPSTREAM_CONNECTIONS = 64


class ProgramCalls(Protocol):
    """Carries requests of programs to the controller."""

    async def ask(self, request: ApiRequest, who: Credentials) -> ApiResponse:
        """The controller's answer; raises `ControllerAway` if there is none."""

    @property
    def host(self) -> str | None:
        """The host that the controller is asked at, where the address names one."""


@dataclass(slots=True)
class _Conversation:
    client: httpx.AsyncClient
    running: int = 0


class ControllerCalls:
    """`url` is the controller's; those of several have commas between them.

    `host` is the name that this machine asks to have as a host, where it needs one.
    """

    def __init__(self, url: str, host: str = "") -> None:
        self.url = url
        self._wanted_host = host
        self._conversations: dict[Credentials, _Conversation] = {}
        self._ring: ControllerRing | None = None
        if url.startswith(f"{INBAND_SCHEME}:"):
            InbandAddress.parse(url)
        elif url.startswith(f"{UDP_SCHEME}:"):
            UdpAddress.parse(url)
        elif not url.startswith(("http:", "https:")):
            reason = f"{url!r} is no address of a controller: expected http://, https://, inband:// or udp://"
            raise ClientError(reason, field="url", value=url)
        else:
            self._ring = ControllerRing(http_controllers(url, None, REQUEST_SECONDS, MAX_UPSTREAM_CONNECTIONS))

    @property
    def host(self) -> str | None:
        return urlsplit(self.url).hostname if self._ring is None else self._ring.current.host

    async def ask(self, request: ApiRequest, who: Credentials) -> ApiResponse:
        if self._ring is not None:
            return await self._ask_one_of(self._ring, request, who)
        conversation = await self._conversation(who)
        conversation.running += 1
        try:
            return await self._ask(conversation.client, self.url, request, dict(request.headers))
        finally:
            conversation.running -= 1

    async def close(self) -> None:
        if self._ring is not None:
            await self._ring.close()
        for each in self._conversations.values():
            await each.client.aclose()

    async def _ask_one_of(self, ring: ControllerRing, request: ApiRequest, who: Credentials) -> ApiResponse:
        """Ask a controller; if it does not serve, the next request, such as a repetition of this one, asks another."""
        token = {"authorization": f"Bearer {who.token}"} if who.token else {}
        asked = ring.current
        try:
            answer = await self._ask(asked.http, asked.url, request, dict(request.headers) | token)
        except ControllerAway:
            ring.move_on(asked)
            raise
        if answer.status in ELSEWHERE_STATUSES and not any(code.encode() in answer.body for code in EVERYWHERE_CODES):
            ring.move_on(asked)
        return answer

    async def _ask(
        self, client: httpx.AsyncClient, url: str, request: ApiRequest, headers: dict[str, str]
    ) -> ApiResponse:
        try:
            response = await client.request(request.method, request.path, content=request.body, headers=headers)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            reason = f"no controller answers at {url}: {str(error) or type(error).__name__}"
            raise ControllerAway(reason, field="url") from None
        told = tuple((name, response.headers[name]) for name in ANSWER_HEADERS if name in response.headers)
        return ApiResponse(response.status_code, told, response.content)

    async def _conversation(self, who: Credentials) -> _Conversation:
        found = self._conversations.pop(who, None)
        if found is not None:
            self._conversations[who] = found  # the last now, so that others make room first
            return found
        idle = None
        if len(self._conversations) >= MAX_CONVERSATIONS:
            idle = next((key for key, each in self._conversations.items() if not each.running), None)
            if idle is None:
                raise LimitReached("too many principals ask at the same time", field="principal")
        client = httpx.AsyncClient(
            transport=self._transport(who), base_url="http://controller", timeout=REQUEST_SECONDS
        )
        made = self._conversations[who] = _Conversation(client)
        if idle is not None:
            await self._conversations.pop(idle).client.aclose()
        return made

    def _transport(self, who: Credentials) -> InbandTransport:
        if self.url.startswith(f"{UDP_SCHEME}:"):
            return UdpAddress.parse(self.url).transport(who.principal, who.token)
        return InbandAddress.parse(self.url).transport(who.principal, who.token, self._wanted_host)

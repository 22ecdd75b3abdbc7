"""What the tests of the host agent share: a link that goes nowhere, and a service whose hosts have a network."""

import json
from collections.abc import Callable
from typing import Any

import httpx
from fastapi import FastAPI

from pleroma.client.links.network_link import HostAttachment
from pleroma.errors import ControllerAway
from pleroma.host_agent.local_programs import Credentials
from pleroma.index.address import IPV6
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.api_terms import ANSWER_HEADERS

NATIVE = HostAttachment("h1", ("fd00::1", 17470), 30.0, IPV6)


class StubLink:
    """Keeps what was sent; `receive` takes what the network would bring."""

    def __init__(self, attachment: HostAttachment, receive: Callable[[bytes], None]) -> None:
        self.attachment = attachment
        self.receive = receive
        self.sent: list[tuple[bytes, bytes]] = []
        self.overrun = 0
        self.is_closed = False

    def send(self, address: bytes, packet: bytes) -> bool:
        if not self.is_closed:
            self.sent.append((address, packet))
        return not self.is_closed

    async def attach(self) -> bool:
        return True

    async def stay(self) -> None:
        raise NotImplementedError

    def doubt(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.is_closed = True


class Hand:
    """A program's connection, with room for so many frames."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.frames: list[bytes] = []
        self.is_closed = False

    def send(self, frame: bytes) -> bool:
        has_room = len(self.frames) < self.room
        if has_room:
            self.frames.append(frame)
        return has_room

    def close(self) -> None:
        self.is_closed = True


class AppCalls:
    """Requests to a service in this process. Whoever attaches is told that host h1 has a network of its own."""

    host = None

    def __init__(self, app: FastAPI) -> None:
        self.asked: list[tuple[str, str]] = []
        self.is_away = False
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")

    async def ask(self, request: ApiRequest, who: Credentials) -> ApiResponse:
        self.asked.append((request.method, request.path))
        if self.is_away:
            raise ControllerAway("away")
        headers = dict(request.headers) | {"authorization": f"Bearer {who.token}"}
        path = request.path.replace("/v1/hosts/any/", "/v1/hosts/h1/")
        response = await self._client.request(request.method, path, content=request.body, headers=headers)
        told = tuple((name, response.headers[name]) for name in ANSWER_HEADERS if name in response.headers)
        body = response.content
        if "/attachments" in path and response.status_code == 201:
            body = json.dumps(json.loads(body) | {"network": "native", "address": "fd00::1", "port": 17470}).encode()
        return ApiResponse(response.status_code, told, body)


class ScriptedCalls:
    """Answers by method and path, as the test says."""

    host = None

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self.headers: tuple[tuple[str, str], ...] = ()

    async def ask(self, request: ApiRequest, who: Credentials) -> ApiResponse:
        path = request.path.partition("?")[0]
        self.asked.append((request.method, path, who.token))
        if (request.method, path) not in self.answers:
            raise ControllerAway("nobody answers")
        status, body = self.answers[request.method, path]
        return ApiResponse(status, self.headers, b"" if body is None else json.dumps(body).encode())

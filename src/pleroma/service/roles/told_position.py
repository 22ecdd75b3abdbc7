"""The leading process tells gates how far the log was when it answered a request that a gate has relayed."""

from __future__ import annotations

from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pleroma.control.log.durable_log import Position

RELAYED_HEADER = b"pleroma-relayed"
"""Of requests that a gate has relayed. No gate relays them again, or two could pass a request on for ever."""
POSITION_HEADER = b"pleroma-position"


class HasPosition(Protocol):
    @property
    def position(self) -> Position: ...


class ToldPosition:
    """Middleware of the leading process."""

    def __init__(self, app: ASGIApp, controller: HasPosition) -> None:
        self._app = app
        self._controller = controller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = POSITION_HEADER, b"%d" % self._controller.position
                message["headers"] = [*message["headers"], told]
            await send(message)

        is_relayed = scope["type"] == "http" and any(name == RELAYED_HEADER for name, _ in scope["headers"])
        await self._app(scope, receive, telling if is_relayed else send)

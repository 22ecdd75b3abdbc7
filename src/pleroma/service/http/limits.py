"""How much one caller may ask: requests per second as a token bucket, and bytes per request.

A bucket fills at a steady rate up to one second's worth; a request takes one token or is told when there will be one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pleroma.errors import TooLarge
from pleroma.service.http.problems import problem_response

_MAX_PARTLY_FILLED = 10_000


class Buckets:
    """One bucket for each name. Full ones are as good as none, so they are forgotten when there are many."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s = per_s
        self.size = max(per_s, 1.0)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there will be."""
        now = self._clock()
        level, then = self._levels.get(name, (self.size, now))
        level = min(self.size, level + (now - then) * self.per_s)
        if level < 1:
            self._levels[name] = (level, now)
            return (1 - level) / self.per_s
        if len(self._levels) > _MAX_PARTLY_FILLED:
            self._forget(now)
        self._levels[name] = (level - 1, now)
        return 0.0

    def _forget(self, now: float) -> None:
        self._levels = {
            name: (level, then)
            for name, (level, then) in self._levels.items()
            if level + (now - then) * self.per_s < self.size
        }


class BodyLimit:
    """Refuses a body that says it is too large before it is read, and one that turns out to be while it is."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or len(announced) > 18 or int(announced) > self._most:
            await problem_response(self._too_large())(scope, receive, send)
            return
        if announced != b"0" or scope["method"] in ("GET", "DELETE"):
            await self._app(scope, receive, send)  # the server lets through what was announced and no more
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._too_large().reason)
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a body has at most {self._most} bytes", field="body", value=None)

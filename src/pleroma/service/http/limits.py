"""How much one caller may ask: requests per second as a token bucket, and bytes per request.

A bucket fills at a steady rate up to one second's worth. A request takes one token, or is refused with the time until
there will be one. A batch takes more, by the number of its items.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pleroma.errors import TooLarge
from pleroma.service.http.problems import problem_response

_MAX_BUCKETS = 10_000
"""When there are more, full ones are forgotten."""


class Buckets:
    """One bucket for each name. When there are many, full ones are forgotten: a new bucket is full as well."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s = per_s
        self.size = max(per_s, 1.0)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._forget_at = _MAX_BUCKETS

    def take(self, name: str, tokens: float = 1.0) -> float:
        """Take tokens: 0 if there were enough, else the seconds until there will be. A full bucket has enough."""
        tokens = min(tokens, self.size)
        return self._take(name, tokens, tokens)

    def take_more(self, name: str, tokens: float) -> float:
        """Take tokens for a request that has taken one already. What not even a full bucket has is owed."""
        return self._take(name, tokens, min(tokens, self.size - 1.0))

    def _take(self, name: str, tokens: float, needed: float) -> float:
        now = self._clock()
        level, then = self._levels.get(name, (self.size, now))
        level = min(self.size, level + (now - then) * self.per_s)
        if level < needed:
            self._levels[name] = (level, now)
            return (needed - level) / self.per_s
        if len(self._levels) > self._forget_at:
            self._forget(now)
            self._forget_at = max(_MAX_BUCKETS, 2 * len(self._levels))  # or each new name would have all looked through
        self._levels[name] = (level - tokens, now)
        return 0.0

    def _forget(self, now: float) -> None:
        self._levels = {
            name: (level, then)
            for name, (level, then) in self._levels.items()
            if level + (now - then) * self.per_s < self.size
        }


class BodyLimit:
    """Refuses a body that is too large: before it is read if its length was announced, else while it is read."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or len(announced) > 18 or int(announced) > self._max_bytes:
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
            if read > self._max_bytes:
                raise HTTPException(413, self._too_large().reason)
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a body has at most {self._max_bytes} bytes", field="body", value=None)

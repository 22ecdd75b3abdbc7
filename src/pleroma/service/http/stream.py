"""The controller's feed as server-sent events.

    event: request
    data: {"type": "request", ...}

An administrator gets everything. Others get new plans, which they need, and their own requests and counters. When
nothing happens for a while, a comment shows that the connection is alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pleroma.control import Principal
from pleroma.control.feed import FEED_TYPES
from pleroma.service.http.context import Service
from pleroma.service.http.json_answers import to_bytes

HEARTBEAT = b": alive\n\n"
_FOR_ALL = frozenset({"plan", "lost"})


def formatted(item: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(item["type"]).encode(), to_bytes(item))


def seen_by(principal: Principal, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The item as this principal may see it; None if it may not."""
    if principal.role == "admin" or item["type"] in _FOR_ALL:
        return item
    if item["type"] == "counters" and item["principal"] == principal.name:
        return {name: value for name, value in item.items() if name != "totals"}
    if item["type"] == "request" and item["command"].get("principal") == principal.name:
        return item
    return None


def _is_seen(principals: Mapping[str, Principal], name: str, item: Mapping[str, Any]) -> bool:
    principal = principals.get(name)
    return principal is not None and seen_by(principal, item) is not None


async def events(service: Service, digest: str, types: frozenset[str] = FEED_TYPES) -> AsyncIterator[bytes]:
    """The stream, until the client goes, the service stops, or the token with this digest is worth nothing any more."""
    opened = service.controller.principals.with_digest(digest)
    if opened is None:
        return
    sees = partial(_is_seen, service.controller.principals, opened[0].name)
    feed = service.controller.feed.subscribe(types=types, sees=sees)
    closing = asyncio.ensure_future(service.closing.wait())
    waiting: asyncio.Future[Any] | None = None
    try:
        yield HEARTBEAT  # so that the client sees at once that it is connected
        while True:
            waiting = waiting or asyncio.ensure_future(feed.woken())
            seconds = service.settings.heartbeat_seconds
            done, _ = await asyncio.wait((waiting, closing), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            found = service.controller.principals.with_digest(digest)
            if closing in done or found is None or service.tokens.is_over(found[1]):
                return
            if waiting in done:
                waiting = None
                seen = (seen_by(found[0], item) for item in feed.unread())
                if lines := b"".join(formatted(item) for item in seen if item is not None):
                    yield lines
                if feed.is_over:
                    return
            elif not done:
                yield HEARTBEAT
    finally:
        closing.cancel()
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
        feed.close()

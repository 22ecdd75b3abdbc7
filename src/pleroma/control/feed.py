"""News for whoever watches: what was asked, which rules changed, which plan is in force, how the counters stand.

Whoever listens slowly loses the oldest news and is told how many; nobody waits for a listener.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Self

FeedItem = dict[str, Any]
MAX_UNREAD_ITEMS = 1000
FEED_TYPES = frozenset({"request", "flows", "plan", "counters"})
"""What items can be about."""


class FeedReader:
    """The news from the moment of subscribing on. Iterate over it; leave it with `close`, or as a context."""

    def __init__(self, feed: Feed, room: int, types: frozenset[str]) -> None:
        self.types = types
        self._feed = feed
        self._room = room
        self._items: deque[FeedItem] = deque()
        self._lost = 0
        self._news = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """What is still unread can be read; then the iteration ends."""
        self._closed = True
        self._feed.forget(self)
        self._news.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedItem:
        while not self._items and not self._lost:
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        if self._lost:
            lost, self._lost = self._lost, 0
            return {"type": "lost", "count": lost}
        return self._items.popleft()

    async def aclose(self) -> None:
        self.close()

    def tell(self, item: FeedItem) -> None:
        if len(self._items) == self._room:
            self._items.popleft()
            self._lost += 1
        self._items.append(item)
        self._news.set()


class Feed:
    """Tells each item to all who listen."""

    def __init__(self) -> None:
        self._listeners: dict[FeedReader, None] = {}
        self.wanted: frozenset[str] = frozenset()
        """The types that anybody listens to: what costs time to describe need not be described to nobody."""

    def __len__(self) -> int:
        return len(self._listeners)

    def subscribe(self, room: int = MAX_UNREAD_ITEMS, types: frozenset[str] = FEED_TYPES) -> FeedReader:
        """An asynchronous iterator over what is told from now on, with room for so many unread items."""
        listener = FeedReader(self, room, types)
        self._listeners[listener] = None
        self.wanted |= types
        return listener

    def forget(self, listener: FeedReader) -> None:
        if listener in self._listeners:
            del self._listeners[listener]
            self.wanted = frozenset().union(*(each.types for each in self._listeners))

    def tell(self, item: FeedItem) -> None:
        for listener in self._listeners:
            if item["type"] in listener.types:
                listener.tell(item)

    def close(self) -> None:
        """No more news: all listeners come to their end."""
        for listener in list(self._listeners):
            listener.close()

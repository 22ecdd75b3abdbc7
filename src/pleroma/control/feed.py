"""The live stream of what happens: requests, changes of rules, plans and the network, and what clients counted.

Nobody waits for a reader of the feed: one that reads too slowly loses the oldest items, and is told how many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Self

FeedItem = dict[str, Any]
MAX_UNREAD_ITEMS = 1000
FEED_TYPES = frozenset({"request", "flows", "plan", "counters", "network"})
"""What items can be about."""


class FeedReader:
    """An asynchronous iterator over items, from the moment of subscribing on. End it with `close`, or as a context."""

    def __init__(self, feed: Feed, max_unread: int, types: frozenset[str]) -> None:
        self.types = types
        self._feed = feed
        self._max_unread = max_unread
        self._items: deque[FeedItem] = deque()
        self._lost = 0
        self._more = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """Take no more items. Those that are unread can still be read; then the iteration ends."""
        self._closed = True
        self._feed.forget(self)
        self._more.set()

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
            self._more.clear()
            await self._more.wait()
        if self._lost:
            lost, self._lost = self._lost, 0
            return {"type": "lost", "count": lost}
        return self._items.popleft()

    async def aclose(self) -> None:
        self.close()

    def tell(self, item: FeedItem) -> None:
        if len(self._items) == self._max_unread:
            self._items.popleft()
            self._lost += 1
        self._items.append(item)
        self._more.set()


class Feed:
    """Tells each item to all readers that want its type."""

    def __init__(self) -> None:
        self._readers: dict[FeedReader, None] = {}
        self.wanted: frozenset[str] = frozenset()
        """The types that any reader wants. Items of other types need not be made, which saves time."""

    def __len__(self) -> int:
        return len(self._readers)

    def subscribe(self, max_unread: int = MAX_UNREAD_ITEMS, types: frozenset[str] = FEED_TYPES) -> FeedReader:
        """A reader of the items from now on, which keeps at most so many unread."""
        reader = FeedReader(self, max_unread, types)
        self._readers[reader] = None
        self.wanted |= types
        return reader

    def forget(self, reader: FeedReader) -> None:
        if reader in self._readers:
            del self._readers[reader]
            self.wanted = frozenset().union(*(each.types for each in self._readers))

    def tell(self, item: FeedItem) -> None:
        for reader in self._readers:
            if item["type"] in reader.types:
                reader.tell(item)

    def close(self) -> None:
        """End all readers: there will be no more items."""
        for reader in list(self._readers):
            reader.close()

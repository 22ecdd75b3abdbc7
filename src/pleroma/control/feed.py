"""The live stream of what happens: requests, changes of rules, plans and the network, and what clients counted.

Nobody waits for a reader of the feed: one that reads too slowly loses the oldest items, and is told how many. However
many readers there are, an item keeps the event loop only for as long as it takes to hand it to some of them: they are
woken a few at a time, and only for items that they may see.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Self

FeedItem = dict[str, Any]
MAX_UNREAD_ITEMS = 1000
FEED_TYPES = frozenset({"request", "flows", "plan", "counters", "network"})
"""What items can be about."""
WOKEN_AT_ONCE = 16
"""Readers that are woken before others have their turn on the event loop."""
READ_AT_ONCE = 16
"""Items that a reader gets before others have their turn."""
WAKE_SECONDS = 0.004
"""Until the next readers are woken: a principal with very many takes no more than a part of the loop's time."""


class FeedReader:
    """An asynchronous iterator over items, from the moment of subscribing on. End it with `close`, or as a context."""

    def __init__(
        self, feed: Feed, max_unread: int, types: frozenset[str], sees: Callable[[FeedItem], bool] | None
    ) -> None:
        self.types = types
        self._feed = feed
        self._max_unread = max_unread
        self._sees = sees
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
            await self.woken()
        return self._next()

    @property
    def is_over(self) -> bool:
        """Whether there will be no more items, and all were read."""
        return self._closed and not self._items and not self._lost

    async def woken(self) -> None:
        """Wait until there may be items, or somebody has stirred the feed."""
        if not self._closed:
            await self._more.wait()
            self._more.clear()

    def unread(self) -> list[FeedItem]:
        """The next items that wait, at most `READ_AT_ONCE`; they are read now. If there are more, `woken` returns."""
        waiting = len(self._items) + bool(self._lost)
        if waiting > READ_AT_ONCE:
            self._more.set()
        return [self._next() for _ in range(min(waiting, READ_AT_ONCE))]

    def takes(self, item: FeedItem) -> bool:
        """Whether the reader is told of an item."""
        return item["type"] in self.types and (self._sees is None or self._sees(item))

    def tell(self, item: FeedItem) -> None:
        if len(self._items) == self._max_unread:
            self._items.popleft()
            self._lost += 1
        self._items.append(item)

    def wake(self) -> None:
        self._more.set()

    def _next(self) -> FeedItem:
        if self._lost:
            lost, self._lost = self._lost, 0
            return {"type": "lost", "count": lost}
        return self._items.popleft()


class Feed:
    """Tells each item to all readers that want its type and may see it."""

    def __init__(self) -> None:
        self._readers: dict[FeedReader, None] = {}
        self.wanted: frozenset[str] = frozenset()
        """The types that any reader wants. Items of other types need not be made, which saves time."""
        self._asleep: dict[FeedReader, None] = {}
        """Those that have items and are not woken yet, in the order in which they will be."""
        self._waking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._readers)

    def subscribe(
        self,
        max_unread: int = MAX_UNREAD_ITEMS,
        types: frozenset[str] = FEED_TYPES,
        sees: Callable[[FeedItem], bool] | None = None,
    ) -> FeedReader:
        """A reader of the items from now on, which keeps at most so many unread. `sees` tells which it may see."""
        reader = FeedReader(self, max_unread, types, sees)
        self._readers[reader] = None
        self.wanted |= types
        return reader

    def forget(self, reader: FeedReader) -> None:
        self._asleep.pop(reader, None)
        if reader in self._readers:
            del self._readers[reader]
            self.wanted = frozenset().union(*(each.types for each in self._readers))

    def tell(self, item: FeedItem) -> None:
        for reader in self._readers:
            if reader.takes(item):
                reader.tell(item)
                self._asleep[reader] = None
        self._wake()

    def stir(self) -> None:
        """Wake all readers: something has changed that is no item, such as who may read."""
        self._asleep |= self._readers
        self._wake()

    def close(self) -> None:
        """End all readers: there will be no more items."""
        if self._waking is not None:
            self._waking.cancel()
        for reader in list(self._readers):
            reader.close()

    def _wake(self) -> None:
        if self._waking is None and self._asleep:
            self._wake_some()

    def _wake_some(self) -> None:
        self._waking = None
        for reader in list(islice(self._asleep, WOKEN_AT_ONCE)):
            del self._asleep[reader]
            reader.wake()
        if self._asleep:
            self._waking = asyncio.get_running_loop().call_later(WAKE_SECONDS, self._wake_some)

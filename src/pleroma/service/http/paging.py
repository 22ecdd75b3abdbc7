"""Lists in pages: {"items": [...], "next": <what to give as `after` for the next page> or null}.

A page ends after as many items as were asked for, or with the item that makes it large: items may be of any size. While
a page is made, others have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from starlette.responses import Response

from pleroma.service.http.json_answers import bytes_response, to_bytes

T = TypeVar("T")

DEFAULT_PAGE_ITEMS = 100
MAX_PAGE_ITEMS = 1000
MAX_PAGE_BYTES = 2**18
"""A page that has so many bytes ends, however few items it has."""
ITEMS_AT_ONCE, BYTES_AT_ONCE = 50, 2**16
"""After so many items of a page, or bytes, others have their turn."""

LOOKED_AT_ONCE = 1000
"""After so many items that may or may not be for the page, others have their turn."""


async def page_response(
    found: AsyncIterator[T],
    limit: int,
    shape: Callable[[T], dict[str, Any]],
    name: Callable[[T], str],
    *,
    before: Callable[[T], Awaitable[None]] | None = None,
    answer: Mapping[str, Any] | None = None,
) -> Response:
    """A page of the first items found, and the name of its last item as `next` if there are more.

    `before` is awaited for each item before it is shaped. An `answer` is given along with the page.
    """
    items: list[bytes] = []
    size, rested, last, following = 0, 0, "", None
    async for each in found:
        if len(items) == limit or size >= MAX_PAGE_BYTES:
            following = last
            break
        if before is not None:
            await before(each)
        items.append(to_bytes(shape(each)))
        size += len(items[-1])
        last = name(each)
        if len(items) % ITEMS_AT_ONCE == 0 or size - rested >= BYTES_AT_ONCE:
            rested = size
            await asyncio.sleep(0)
    head = b"".join(b"%b:%b," % (to_bytes(field), to_bytes(value)) for field, value in (answer or {}).items())
    return bytes_response(b'{%b"items":[%b],"next":%b}' % (head, b",".join(items), to_bytes(following)))


async def in_turns(found: Iterable[T]) -> AsyncIterator[T]:
    """The items of a list that may change meanwhile; others have their turn after some."""
    for number, each in enumerate(found, 1):
        yield each
        if number % LOOKED_AT_ONCE == 0:
            await asyncio.sleep(0)


def behind(found: Iterable[T], after: str | None, name: Callable[[T], str]) -> list[T]:
    """The items after the one of this name, in a list that keeps its order; none if that one is gone."""
    items = iter(found)
    if after is not None:
        for each in items:
            if name(each) == after:
                break
    return list(items)

"""Lists in pages: {"items": [...], "next": <what to give as `after` for the next page> or null}."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

DEFAULT_PAGE_ITEMS = 100
MAX_PAGE_ITEMS = 1000


def page(
    found: Iterable[T], limit: int, shape: Callable[[T], dict[str, Any]], name: Callable[[T], str]
) -> dict[str, Any]:
    """A page of the first `limit` items found, and the name of its last item as `next` if there are more."""
    taken = list(islice(found, limit + 1))
    shown = taken[:limit]
    return {"items": [shape(each) for each in shown], "next": name(shown[-1]) if len(taken) > limit else None}


def behind(found: Iterable[T], after: str | None, name: Callable[[T], str]) -> Iterable[T]:
    """The items after the one of this name, in a list that keeps its order; none if that one is gone."""
    items = iter(found)
    if after is not None:
        for each in items:
            if name(each) == after:
                break
    return items

"""Lists in pages: the answer, and the query parameters that ask for a page."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import Field

from pleroma.service.http import paging
from pleroma.service.http.models.strict_model import QueryModel, StrictModel

T = TypeVar("T")


class Page(StrictModel, Generic[T]):
    items: list[T]
    next: str | None = Field(description="Give it as `after` to get what follows; null at the end.")


class Paging(QueryModel):
    after: Annotated[str | None, Field(max_length=200, description="`next` of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=paging.MAX_PAGE_ITEMS)] = paging.DEFAULT_PAGE_ITEMS

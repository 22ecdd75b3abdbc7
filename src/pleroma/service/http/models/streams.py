"""The live stream: its query parameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pleroma.service.http.models.strict_model import QueryModel


class StreamQuestion(QueryModel):
    types: Annotated[
        str | None,
        Field(max_length=200, description="Only these, separated by commas: request, flows, plan, counters"),
    ] = None

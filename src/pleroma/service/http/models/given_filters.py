"""A filter of a schema as a request gives it: in the filter language, or as boxes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from pleroma.service.http.models.strict_model import StrictModel


class GivenFilter(StrictModel):
    name: str = Field(alias="schema", max_length=64)
    filter: Annotated[str, Field(max_length=65_536)] | None = Field(None, description="In the filter language")
    boxes: list[dict[str, Any]] | None = Field(None, description="The same as JSON, for programs")

    @model_validator(mode="after")
    def _one_filter(self) -> Self:
        if (self.filter is None) == (self.boxes is None):
            raise ValueError("give one of filter and boxes")
        return self

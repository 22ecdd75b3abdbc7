"""A filter explained under the plan in force: the body that asks, and the answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from pleroma.service.http.models.given_filters import GivenFilter
from pleroma.service.http.models.strict_model import StrictModel


class ShareAnswer(StrictModel):
    delivered: float = Field(description="Which part of the events the dz of its cover bring", examples=[0.31])
    wanted: float = Field(description="Which part of the events it matches", examples=[0.02])
    events: int = Field(description="How many events were sampled", examples=[2000])


class NewExplanation(GivenFilter):
    model_config = ConfigDict(json_schema_extra={"examples": [{"schema": "stock", "filter": "price >= 50"}]})


class ExplainedIndex(StrictModel):
    kind: Literal["grid", "tree", "selective"]
    bits: int
    attributes: list[str] = Field(description="Those that it gives bits to")


class ExplainedDz(StrictModel):
    dz: str = Field(description="Behind the prefix of the schema", examples=["011"])
    prefix: str = Field(description="The addresses that a rule for it matches", examples=["ff0e:c000::/22"])
    space: float = Field(description="Its share of the event space")


class FinerCover(StrictModel):
    members: int
    space: float


class ExplanationAnswer(StrictModel):
    name: str = Field(alias="schema")
    epoch: int = Field(description="Of the plan in force")
    filter: str = Field(examples=["price >= 50.0"])
    boxes: list[dict[str, Any]] = Field(description="The filter as boxes; none if no event can match it")
    index: ExplainedIndex
    members: int = Field(description="How many dz cover the filter")
    limit: int = Field(description="How many dz may cover a filter")
    cover: list[ExplainedDz]
    space: float = Field(description="The share of the event space that the cover has")
    finer: FinerCover = Field(description="The same with a limit of 1024 dz")
    ignored: list[str] = Field(description="Attributes that the filter restricts, and the cover does not look at")
    share: ShareAnswer | None = Field(description="Of the events sampled of late; null where nothing was sampled")

"""Statistics: what clients report, and what the controller adds up."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pleroma.service.http.models.batches import Batch
from pleroma.service.http.models.strict_model import StrictModel
from pleroma.wire.api_terms import MAX_REPORTED_SUBSCRIPTIONS

Count = Annotated[int, Field(ge=0, lt=2**53)]


class Counters(StrictModel):
    delivered: Count = 0
    wasted: Count = 0
    duplicates: Count = 0
    dropped: Count = 0


class NewReport(StrictModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"subscriptions": {"s7": {"delivered": 90, "wasted": 10}}, "published": 5}]}
    )

    subscriptions: Annotated[dict[str, Counters], Field(max_length=MAX_REPORTED_SUBSCRIPTIONS)] = Field({})
    published: Count = 0
    batch: Batch | None = Field(None, description="So that this report counts once if it is sent again")


class Totals(Counters):
    published: int
    waste: float | None = Field(description="wasted / (delivered + wasted); null before anything arrived")


class PrincipalCounters(Counters):
    published: int


class StatisticsAnswer(StrictModel):
    position: int
    schemas: int
    advertisements: int
    subscriptions: int
    rules: int = Field(description="In all switches together")
    reported: Totals
    by_subscription: dict[str, Counters]
    principals: dict[str, PrincipalCounters] | None = Field(None, description="For administrators")
    hosts: dict[str, dict[str, int]] | None = Field(None, description="For administrators: the hosts' ports")

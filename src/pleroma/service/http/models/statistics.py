"""Statistics: what clients report, and what the controller adds up."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pleroma.service.http.models.batches import Batch
from pleroma.service.http.models.strict_model import StrictModel
from pleroma.service.http.models.trees import TreesSummary
from pleroma.wire.api_terms import MAX_REPORTED_SUBSCRIPTIONS

MAX_REPORTED_SCHEMAS = 1000
"""Schemas in one report."""

Count = Annotated[int, Field(ge=0, lt=2**53)]


class EventCounters(StrictModel):
    delivered: Count = Field(0, description="Events that matched, at each subscription")
    wasted: Count = Field(0, description="Packets that came and no subscription of the client wanted")
    duplicates: Count = Field(0, description="Matching events that came once more")
    dropped: Count = Field(0, description="Matching events that the program was too slow for")
    forged: Count = Field(0, description="Packets whose tag is not genuine, each counted once")
    missed: Count = Field(0, description="Events that never came though later ones of their publisher did")


class Counters(EventCounters):
    wanted: Count = Field(0, description="Packets that a subscription of the client wanted, each counted once")


class NewCounters(EventCounters):
    wanted: Count | None = Field(None, description="Packets that the client wanted, each once; if null, as `delivered`")


class NewReport(StrictModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"subscriptions": {"s7": {"delivered": 90, "wasted": 10}}, "published": 5}]}
    )

    subscriptions: Annotated[dict[str, NewCounters], Field(max_length=MAX_REPORTED_SUBSCRIPTIONS)] = Field({})
    published: Count | Annotated[dict[str, Count], Field(max_length=MAX_REPORTED_SCHEMAS)] = Field(
        0, description="Published events: how many, or how many of each schema"
    )
    unsent: Count = Field(0, description="Published events that the client could not send and dropped")
    overrun: Count = Field(0, description="Datagrams that the kernel dropped, since the program did not read them")
    batch: Batch | None = Field(None, description="So that this report counts once if it is sent again")


class PrincipalCounters(Counters):
    published: int
    unsent: int
    overrun: int


class Totals(PrincipalCounters):
    waste_at_hosts: float | None = Field(description="wasted / (wanted + wasted); null before anything arrived")


class Rates(StrictModel):
    seconds: float = Field(description="The time that they are of")
    published_per_s: float
    delivered_per_s: float
    waste_at_hosts: float | None = Field(description="Of what arrived in that time; null if nothing did")


class SchemaRates(StrictModel):
    epoch: int = Field(description="Of the plan in force")
    last_minute: Rates
    since_plan: Rates = Field(
        description="Of what was reported since the plan came into force, or the controller started"
    )


class EnteredForgery(StrictModel):
    host: str = Field(description="Where they came in")
    principal: str = Field(description="Who sent them")
    events: int


class ReportedForgery(StrictModel):
    name: str = Field(alias="schema")
    events: int
    may_enter_at: list[str] = Field(
        description="Ports of hosts that may send what the client has subscribed to", examples=[["R1 port 1 (h1)"]]
    )


class Forgeries(StrictModel):
    entered: list[EnteredForgery] = Field(description="Events under the number of another, dropped where they came in")
    reported: list[ReportedForgery] = Field(description="Events that clients received and whose tag is not genuine")


class StatisticsAnswer(StrictModel):
    position: int
    schemas: int
    advertisements: int
    subscriptions: int
    rules: int = Field(description="In all switches together")
    trees: TreesSummary
    loop_stall_seconds: float = Field(
        description="For how long the controller answered nobody, at most, in the last minute"
    )
    reported: Totals
    last_minute: Rates
    by_schema: dict[str, SchemaRates]
    by_subscription: dict[str, Counters]
    principals: dict[str, PrincipalCounters] | None = Field(None, description="For administrators")
    hosts: dict[str, dict[str, int]] | None = Field(None, description="For administrators: the hosts' ports")
    forged: Forgeries | None = Field(None, description="For administrators: events that are not from whom they say")

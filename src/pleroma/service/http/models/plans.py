"""Plans: the bodies that change the plan of a schema, and the answers that show plans."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from pleroma.index import MAX_MEMBERS
from pleroma.service.http.examples import EXAMPLE_INDEX, EXAMPLE_PLAN
from pleroma.service.http.models.strict_model import StrictModel

PlanPhase = Literal["prepared", "swapped", "settled"]


class PlanPrediction(StrictModel):
    waste_at_hosts: float | None = Field(None, ge=0, le=1, description="The share of packets that no host wants")
    waste_at_subscriptions: float | None = Field(
        None, ge=0, le=1, description="The same on one switch with a port for each subscription"
    )
    rules: int | None = Field(None, ge=0, description="Of the fullest switch")
    subscriptions: int | None = Field(None, ge=0, description="How many there were when it was predicted")


class PlanOriginAnswer(StrictModel):
    at: str = Field(description="When it was asked for, in UTC", examples=["2026-11-16T20:15:00+00:00"])
    by: str | None = Field(description="The principal that asked; null if the controller found it itself")
    predicted: PlanPrediction = Field(description="What whoever made it expects of it")


class MeasuredWaste(StrictModel):
    seconds: float = Field(description="For how long it was in force while reports came")
    packets: int = Field(description="That came to hosts, as clients reported")
    waste_at_hosts: float | None = Field(description="The share of them that nobody there wanted; null if none came")


class PlanAnswer(StrictModel):
    epoch: int
    number: int
    prefix: str = Field(examples=["000000"])
    members: int = Field(description="Cells that a registration is enclosed with by this plan, at most", examples=[8])
    plan: dict[str, Any] = Field(description="An index plan with its checksum", examples=[EXAMPLE_PLAN])
    earlier: list[dict[str, Any]] | None = Field(
        None, description="With the plan in force: the versions of the schema before the plan's, from the first on"
    )
    phase: PlanPhase | None = Field(None, description="Of the plan in force: how far a change of plans has come")
    sample: float | None = Field(
        None, description="With the plan in force: the part of their events that publishers send as samples"
    )
    origin: PlanOriginAnswer | None = Field(
        None, description="In the history, for administrators: where it came from, as far as that is known"
    )
    measured: MeasuredWaste | None = Field(
        None, description="In the history, for administrators: what it did since the controller started"
    )


class HowToChange(StrictModel):
    method: Literal["lightweight", "versioning", "at_once"] = Field(
        "lightweight",
        description="How switches get there: by detours, with both versions for a while, or without care for events",
    )
    wait: bool = Field(True, description="Answer when the change is over, or (false) as soon as it has begun")


class NewPlan(HowToChange):
    model_config = ConfigDict(json_schema_extra={"examples": [{"index": EXAMPLE_INDEX, "method": "lightweight"}]})

    index: dict[str, Any] = Field(description="An index as in a plan")
    members: int | None = Field(
        None,
        ge=1,
        le=MAX_MEMBERS,
        description="Cells that a registration is enclosed with, at most; without a number, as by the plan in force",
    )
    epoch: int | None = Field(None, ge=1, description="Of the plan that must be in force; refused if another is")
    predicted: PlanPrediction | None = Field(None, description="What is expected of it, kept beside it for people")


class Rollback(HowToChange):
    model_config = ConfigDict(json_schema_extra={"examples": [{"epoch": 1}]})

    epoch: int | None = Field(None, ge=1, description="Of an earlier plan; without one, the plan before this one")


class AdoptedPlan(StrictModel):
    name: str = Field(alias="schema")
    epoch: int = Field(description="Of the plan in force now")
    phase: PlanPhase = Field(description="`settled` when the change is over, or when there was nothing to change")

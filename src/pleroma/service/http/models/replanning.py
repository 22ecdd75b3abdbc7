"""Re-planning: a watcher's claim, and what the last look at a schema found."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from pleroma.index.plan import MAX_MEMBERS
from pleroma.service.http.examples import EXAMPLE_INDEX
from pleroma.service.http.models.strict_model import StrictModel

MAX_CLAIM_SECONDS = 3600


class WatcherClaim(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"seconds": 90}]})

    seconds: float = Field(
        ge=0, le=MAX_CLAIM_SECONDS, description="For so long the controller leaves the schema to the caller; 0 ends it"
    )


class BusiestCable(StrictModel):
    now: float = Field(description="Events on the busiest cable between switches, both directions, per event sent")
    expected: float = Field(description="The same on the other trees; both by events that these were not dealt out by")
    events: int = Field(description="Sampled events that this is about")
    outcome: str = Field(description="not_better, adopted, or why events did not move: moved, failed")


class BalancingAnswer(StrictModel):
    choice: Literal["single", "forest", "balanced"] = Field(description="How trees are dealt out")
    count: int = Field(description="Trees that events of the schema travel on now")
    moves: int = Field(description="How often the controller moved events to other trees since it started")
    busiest_cable: BusiestCable | None = Field(description="How the trees in use were compared with others last")


class ReplanningAnswer(StrictModel):
    name: str = Field(alias="schema")
    by: Literal["controller", "watcher", "nobody"] = Field(description="Who looks for better plans now")
    changes: int = Field(description="Plans that the controller itself found and put into force since it started")
    window: dict[str, Any] | None = Field(description="The traffic between the controller's last two looks")
    decision: dict[str, Any] | None = Field(description="What the controller decided at its last look, and why")
    trees: BalancingAnswer
    failure: str | None = Field(description="Why the controller cannot look at the schema, while that is so")


class ForecastQuestion(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"index": EXAMPLE_INDEX, "members": 256}]})

    index: dict[str, Any] = Field(description="An index as in a plan")
    members: Annotated[int, Field(ge=1, le=MAX_MEMBERS)] | None = Field(
        None, description="Cells that a registration is enclosed with, at most; as in the plan in force if left out"
    )


class OutlookAnswer(StrictModel):
    waste_at_hosts: float = Field(description="The share of packets at hosts that nobody there wants")
    packets: int = Field(description="That come to hosts")
    wasted: int
    rules: int = Field(description="Of the fullest switch")
    rules_by_switch: dict[str, int]


class ForecastAnswer(StrictModel):
    name: str = Field(alias="schema")
    events: int = Field(description="Sampled events that this is about; 0 where they had to be imagined")
    subscriptions: int
    planned: OutlookAnswer
    in_force: OutlookAnswer = Field(description="What the plan in force does with the same events")

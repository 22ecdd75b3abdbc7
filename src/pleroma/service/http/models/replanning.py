"""Re-planning: a watcher's claim, and what the last look at a schema found."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from pleroma.service.http.models.strict_model import StrictModel

MAX_CLAIM_SECONDS = 3600


class WatcherClaim(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"seconds": 90}]})

    seconds: float = Field(
        ge=0, le=MAX_CLAIM_SECONDS, description="For so long the controller leaves the schema to the caller; 0 ends it"
    )


class ReplanningAnswer(StrictModel):
    name: str = Field(alias="schema")
    by: Literal["controller", "watcher", "nobody"] = Field(description="Who looks for better plans now")
    changes: int = Field(description="Plans that the controller itself found and put into force since it started")
    window: dict[str, Any] | None = Field(description="The traffic between the controller's last two looks")
    decision: dict[str, Any] | None = Field(description="What the controller decided at its last look, and why")
    failure: str | None = Field(description="Why the controller cannot look at schemas, while that is so")

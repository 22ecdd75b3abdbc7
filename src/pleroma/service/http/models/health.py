"""Health: whether the service is up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pleroma.service.http.health.service_health import HealthPart, HealthStatus
from pleroma.service.http.models.strict_model import StrictModel


class ReasonAnswer(StrictModel):
    part: HealthPart
    status: Literal["degraded", "failing"]
    reason: str = Field(examples=["gone: R2"])


class HealthAnswer(StrictModel):
    status: HealthStatus = Field(
        description="degraded: something is not as it should be; failing: requests or events cannot be served"
    )
    version: str
    position: int = Field(description="How far the log has been followed")
    reasons: list[ReasonAnswer] = Field(description="Why it is not ok; empty if it is")
    brokers: list[str] | None = Field(
        None, description="The names of this broker and of those above it, one after the other; names are of one run"
    )

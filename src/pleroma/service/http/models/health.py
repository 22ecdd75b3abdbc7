"""Health: whether the service is up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pleroma.service.http.models.strict_model import StrictModel


class HealthAnswer(StrictModel):
    status: Literal["ok", "degraded"] = Field(description="degraded: the network or the snapshots cannot keep up")
    version: str
    position: int = Field(description="How far the log has been followed")

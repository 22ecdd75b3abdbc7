"""Health: whether the service is up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pleroma.service.http.models.strict_model import StrictModel


class HealthAnswer(StrictModel):
    status: Literal["ok", "degraded"] = Field(description="degraded: something cannot be done now, and is tried again")
    version: str
    position: int = Field(description="How far the log has been followed")
    network: str | None = Field(None, description="Why the network is behind, while it is")
    snapshots: str | None = Field(None, description="Why no snapshot of the state can be saved, while that is so")
    brokers: list[str] | None = Field(
        None, description="The names of this broker and of those above it, one after the other; names are of one run"
    )
    collecting: str | None = Field(None, description="Why nothing is landed in the lake, while that is so")

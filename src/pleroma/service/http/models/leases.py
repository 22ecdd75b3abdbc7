"""Leases: the body that renews one, and the answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pleroma.service.http.models.strict_model import StrictModel


class PlansInUse(StrictModel):
    plans: dict[Annotated[str, Field(max_length=200)], int] = Field(
        description="The epochs of the plans that the client publishes by", examples=[{"stock": 5}], max_length=64
    )


class LeaseAnswer(StrictModel):
    lease: str
    seconds: float = Field(description="Renew it again within this time")
    event_keys: str | None = Field(
        description="When it changes, read the keys of all registrations again; null where events have no tags",
        examples=["c9d7b2a1f05e6384"],
    )
    registrations: list[str] = Field(description="The ids of what stands under it", examples=[["a6", "s7"]])

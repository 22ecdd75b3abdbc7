"""Principals: the body that creates one, and the answers that show one or its token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pleroma.service.http.models.strict_model import Name, StrictModel

Role = Literal["admin", "publisher", "subscriber", "both", "tuner"]
Rights = Annotated[
    dict[str, Annotated[str, Field(max_length=65_536)]],
    Field(description='Schema to filter; {"*": "true"} is everything', examples=[{"*": "true"}], max_length=64),
]


class NewPrincipal(StrictModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ticker", "role": "publisher", "publish": {"*": "true"}, "read": {}}],
        }
    )

    name: Name
    role: Role
    publish: Rights = Field({})
    read: Rights = Field({})
    subscriptions: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    boxes: Annotated[
        int | None, Field(ge=0, le=1_000_000_000, description="Of the filters of all its registrations together")
    ] = None


class PrincipalAnswer(StrictModel):
    name: str
    role: Role
    publish: dict[str, str]
    read: dict[str, str]
    subscriptions: int | None
    boxes: int | None = Field(description="Of the filters of all its registrations together; null for no limit")


class TokenAnswer(StrictModel):
    name: str
    token: str = Field(description="Shown this once", examples=["plr_…"])

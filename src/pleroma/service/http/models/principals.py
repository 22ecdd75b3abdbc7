"""Principals, their tokens and groups: the bodies that make and change them, and the answers that show them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pleroma.service.http.models.pages import Paging
from pleroma.service.http.models.strict_model import Name, StrictModel

Role = Literal["admin", "publisher", "subscriber", "both", "tuner"]
FilterText = Annotated[str, Field(max_length=65_536)]
Rights = Annotated[
    dict[str, FilterText],
    Field(description='Schema to filter; {"*": "true"} is everything', examples=[{"*": "true"}], max_length=64),
]
ChangedRights = Annotated[
    dict[str, FilterText | None],
    Field(
        description="Schema to another filter, or to null to take the right away; others stay",
        examples=[{"stock": "price < 50"}],
        max_length=64,
    ),
]
Subscriptions = Annotated[int | None, Field(ge=0, le=10_000_000)]
Boxes = Annotated[
    int | None, Field(ge=0, le=1_000_000_000, description="Of the filters of all its registrations together")
]
MAX_TOKEN_SECONDS = 3.2e9
"""A hundred years."""
ExpiresIn = Annotated[
    float | None, Field(gt=0, le=MAX_TOKEN_SECONDS, description="Seconds after which the token ends; never, otherwise")
]
ExpiresAt = Annotated[
    str | None,
    Field(max_length=40, description="Or the instant, with its time zone", examples=["2030-01-01T00:00:00Z"]),
]


class TokenLife(StrictModel):
    expires_in: ExpiresIn = None
    expires_at: ExpiresAt = None


class NewPrincipal(TokenLife):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ticker", "role": "publisher", "publish": {"*": "true"}, "read": {}}],
        }
    )

    name: Name
    role: Role
    publish: Rights = Field({})
    read: Rights = Field({})
    groups: list[Name] = Field([], max_length=64)
    subscriptions: Subscriptions = None
    boxes: Boxes = None


class ChangedPrincipal(StrictModel):
    """What is not given stays as it is."""

    role: Role | None = None
    publish: ChangedRights = Field({})
    read: ChangedRights = Field({})
    groups: dict[Name, bool] = Field({}, max_length=64, description="By name: whether it belongs to the group")
    subscriptions: Annotated[Subscriptions, Field(description="null for no limit")] = None
    boxes: Annotated[Boxes, Field(description="null for no limit")] = None


class NewToken(TokenLife):
    grace: Annotated[
        float, Field(ge=0, le=MAX_TOKEN_SECONDS, description="Seconds for which the token before is good, too")
    ] = 0.0
    withdraw: Annotated[
        bool, Field(description="Withdraw all that the principal has registered: the token may be in wrong hands")
    ] = False


class GrantedRights(StrictModel):
    publish: dict[str, str]
    read: dict[str, str]


class PrincipalAnswer(GrantedRights):
    name: str
    role: Role
    groups: list[str]
    rights: GrantedRights = Field(description="What it may do by itself or by one of its groups")
    subscriptions: int | None
    boxes: int | None = Field(description="Of the filters of all its registrations together; null for no limit")
    expires_at: str | None = Field(description="When its token ends; null for never")
    expired: bool = Field(description="Whether its token has ended")
    earlier_expires_at: str | None = Field(description="When the token before ends; null if it has ended")


class Withdrawn(StrictModel):
    """What was withdrawn, because rights have gone."""

    count: int
    first: list[str] = Field(description="The ids of the first hundred")


class ChangedPrincipalAnswer(PrincipalAnswer):
    withdrawn: Withdrawn


class TokenAnswer(StrictModel):
    name: str
    token: str = Field(description="Shown this once", examples=["plr_…"])
    expires_at: str | None


class RotatedTokenAnswer(TokenAnswer):
    earlier_expires_at: str | None = Field(description="When the token before ends; null if it has ended")
    withdrawn: Withdrawn


class PrincipalPaging(Paging):
    group: Annotated[str | None, Field(max_length=200, description="Only its members")] = None


class NewGroup(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "traders", "read": {"stock": "true"}}]})

    name: Name
    publish: Rights = Field({})
    read: Rights = Field({})


class ChangedGroup(StrictModel):
    """What is not given stays as it is."""

    publish: ChangedRights = Field({})
    read: ChangedRights = Field({})


class GroupAnswer(GrantedRights):
    name: str
    members: int


class ChangedGroupAnswer(GroupAnswer):
    withdrawn: Withdrawn


class RemovedGroupAnswer(StrictModel):
    name: str
    withdrawn: Withdrawn

"""Many registrations, or withdrawals, in one request: the bodies, and the results of the items in their order."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import ConfigDict, Field, SkipValidation

from pleroma.service.http.models.problems import Problem
from pleroma.service.http.models.registrations import NewRegistration
from pleroma.service.http.models.strict_model import StrictModel
from pleroma.wire.api_terms import MAX_BATCH_ITEMS

T = TypeVar("T")


class RegistrationBatch(StrictModel):
    """The items are checked one by one, since one that is wrong does not keep the others from being registered."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"schema": "stock", "filter": "price >= 50", "host": "h1"}]}]}
    )

    items: list[SkipValidation[NewRegistration]] = Field(min_length=1, max_length=MAX_BATCH_ITEMS)


class WithdrawalBatch(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["s7", "s8"]}]})

    ids: list[Annotated[str, Field(max_length=200)]] = Field(min_length=1, max_length=MAX_BATCH_ITEMS)


class RegisteredSubscription(StrictModel):
    """What the controller has decided; the rest is as it was asked for."""

    id: str = Field(examples=["s7"])
    name: str = Field(alias="schema", examples=["stock"])
    host: str = Field(examples=["h1"])
    principal: str
    members: int = Field(description="How many dz cover the filter")
    epoch: int
    lease: str | None = Field(description="Null where it stands until it is withdrawn")
    event_key: str | None = Field(description="As in the answer to one registration")


class RegisteredAdvertisement(RegisteredSubscription):
    id: str = Field(examples=["a6"])
    publisher: int = Field(description="In the header of its packets")


class ItemWithdrawn(StrictModel):
    """What became of one item: `error` is there if the status is not 204."""

    status: int = Field(description="What the answer to a request for this item alone would have", examples=[204])
    error: Problem | None = None


class ItemRegistered(ItemWithdrawn, Generic[T]):
    """What became of one item: `registration` is there if the status is 201, otherwise `error`."""

    status: int = Field(description="What the answer to a request for this item alone would have", examples=[201])
    registration: T | None = None


class BatchResults(StrictModel, Generic[T]):
    results: list[T] = Field(description="One for each item, in the same order")

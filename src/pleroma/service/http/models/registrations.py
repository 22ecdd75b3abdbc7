"""Advertisements and subscriptions: the body that registers one, and the answers that show them."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pleroma.service.http.models.explanations import ShareAnswer
from pleroma.service.http.models.given_filters import GivenFilter
from pleroma.service.http.models.pages import Paging
from pleroma.service.http.models.strict_model import StrictModel

_KEY = "5f" * 32


class NewRegistration(GivenFilter):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"schema": "stock", "filter": "price >= 50", "host": "h1"}]}
    )

    host: str = Field(max_length=200)
    key: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="A repetition with the same key and body gets the same answer, and nothing happens twice"
    )
    lease: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="A name of the program's own: what is registered under it stands while it is renewed"
    )


class SubscriptionAnswer(StrictModel):
    id: str = Field(examples=["s7"])
    name: str = Field(alias="schema", examples=["stock"])
    host: str = Field(examples=["h1"])
    principal: str
    filter: str = Field(examples=["price >= 50.0"])
    members: int = Field(description="How many dz cover the filter")
    epoch: int
    lease: str | None = Field(description="Null where it stands until it is withdrawn")


class SharedSubscription(SubscriptionAnswer):
    event_key: str | None = Field(
        description="Of the schema, in hex, for its owner: the tags of all events are checked with it", examples=[_KEY]
    )
    share: ShareAnswer | None = Field(description="Of the events sampled of late; null where nothing was sampled")


class AdvertisementAnswer(SubscriptionAnswer):
    id: str = Field(examples=["a6"])
    publisher: int = Field(description="In the header of its packets")


class KeyedAdvertisement(AdvertisementAnswer):
    event_key: str | None = Field(
        description="Of the publisher, in hex, for its owner: the tags of its events are made with it", examples=[_KEY]
    )


class RegistrationPaging(Paging):
    name: str | None = Field(None, alias="schema", max_length=200)
    principal: str | None = Field(None, max_length=200)

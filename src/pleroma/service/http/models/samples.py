"""Samples: events that publishers hand over, and the rate at which they draw them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pleroma.service.http.models.batches import Batch
from pleroma.service.http.models.strict_model import StrictModel
from pleroma.wire.api_terms import MAX_SAMPLE_AGE_SECONDS

MAX_ACCEPTED_SAMPLES = 2000
"""Events in one request."""


class NewSamples(StrictModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "schema": "stock",
                    "epoch": 1,
                    "rate": 0.01,
                    "ages": [0.25, 0.1],
                    "columns": {"price": [151.5, 20.0], "volume": [300, 4], "ticker": ["AAPL", "IBM"]},
                    "batch": {"sender": "8c1f0a97d2e4b356", "number": 12},
                }
            ]
        }
    )

    name: str = Field(alias="schema", max_length=64)
    epoch: int = Field(ge=1, lt=2**31, description="Of the plan that they were published by")
    rate: float = Field(gt=0, le=1, description="The part of all events that these were drawn as")
    ages: list[Annotated[float, Field(ge=0, le=MAX_SAMPLE_AGE_SECONDS)]] = Field(
        max_length=MAX_ACCEPTED_SAMPLES, description="How many seconds ago each event was published"
    )
    columns: dict[str, list[Any]] = Field(
        max_length=1024,
        description="The values of each attribute, one for each event; null where it lacks the attribute",
    )
    batch: Batch | None = Field(None, description="So that these events count once if they are sent again")


class SamplesAnswer(StrictModel):
    taken: int = Field(description="How many of them count, and there was room for")


class SamplingRate(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"rate": 0.01}]})

    rate: float = Field(ge=0, le=1, description="The part of their events that publishers send as samples; 0: none")


class SamplingAnswer(SamplingRate):
    name: str = Field(alias="schema")

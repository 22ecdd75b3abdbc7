"""Batches: what clients send again if they get no answer, and what counts once nevertheless."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from pleroma.service.http.models.strict_model import StrictModel


class Batch(StrictModel):
    """A sender numbers its batches upwards. A batch that comes again under its number is answered, and counts once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"sender": "8c1f0a97d2e4b356", "number": 12}]})

    sender: str = Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9_-]+$", description="A name of its own choice")
    number: int = Field(ge=0, lt=2**53)

"""Failures: the one shape of the answer to every request that failed."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pleroma.service.http.models.strict_model import StrictModel


class Problem(StrictModel):
    code: str = Field(examples=["not_allowed"])
    reason: str
    field: str | None
    value: Any
    allowed: str | None = None
    position: int | None = Field(None, description="Where in a filter's text, counted from 1")


class ErrorAnswer(StrictModel):
    error: Problem

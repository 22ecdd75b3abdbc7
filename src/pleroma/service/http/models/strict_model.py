"""What all bodies and query parameters are made of: models that refuse what they do not know."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""Names of schemas and principals: they need no quoting in a URL."""
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$", description="1 to 64 letters, digits, _ . -")]


class StrictModel(BaseModel):
    """A body: unknown fields are refused, and so is a number where a text belongs."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class QueryModel(BaseModel):
    """Query parameters: unknown ones are refused; their values come as text, so numbers are read from text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

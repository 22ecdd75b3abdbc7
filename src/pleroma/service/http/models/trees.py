"""The trees that events travel on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pleroma.control.state.tree_choice import TreeChoice
from pleroma.service.http.models.strict_model import StrictModel


class SchemaOnTree(StrictModel):
    name: str = Field(examples=["stock"])
    version: Literal["in_force", "other"] = Field(description="`other` while a plan changes: the version beside it")
    cells: int = Field(description="How many dz of the schema travel on this tree; a dz stands for all that begin so")
    first_cells: list[str] = Field(description="The first of them, from the left of the event space")
    share: float = Field(description="The part of the schema's event space that they are")
    sampled: float | None = Field(description="The part of the events sampled of late; null where none were")


class EventTree(StrictModel):
    number: int = Field(description="As a trace names it")
    cables: list[str] = Field(description="The links between switches that it has", examples=[["R1 2 - R2 1"]])
    schemas: list[SchemaOnTree]


class TreesAnswer(StrictModel):
    dealt: TreeChoice = Field(description="How trees are dealt out to schemas from now on")
    to_move: list[str] = Field(description="Schemas that are still on trees that were dealt out in another way")
    trees: list[EventTree] = Field(description="Those that carry a part of some schema")
    unused: list[str] = Field(description="Links that are there, and that none of these trees has")


class TreesSummary(StrictModel):
    dealt: TreeChoice
    count: int = Field(description="How many trees carry a part of some schema")
    to_move: int = Field(description="How many schemas are still on trees that were dealt out in another way")

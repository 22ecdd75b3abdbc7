"""The plan in force as a tree: the query parameters, and a page of its nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pleroma.service.http.models.pages import Paging
from pleroma.service.http.models.strict_model import StrictModel


class TreePaging(Paging):
    at: Annotated[str, Field(max_length=112, pattern="^[01]*$", description="The dz of the node to begin at")] = ""
    depth: Annotated[int, Field(ge=0, le=112, description="How many levels below it")] = 6


class TreeNode(StrictModel):
    dz: str = Field(description="The way to it from the root; the root's is empty", examples=["01"])
    attribute: str | None = Field(description="Along which it is cut; null for a leaf", examples=["price"])
    cut: float | None = Field(description="The coordinate at which the upper part begins", examples=[100.0])
    children: list[str] | None = Field(description="The dz of the lower and of the upper part")
    leaves: int | None = Field(description="At or below it; null for grids")
    rules: int = Field(description="At or below it, in the tables of all switches")
    fullest: int = Field(description="At or below it, in the table that has most of them")
    events: int | None = Field(description="Events sampled of late in it; null where nothing was sampled")
    deliveries: int | None = Field(description="Of these events to hosts, by the regions in force")
    wasted_at_hosts: int | None = Field(description="Deliveries to hosts at which nobody wants the event")


class TreeAnswer(StrictModel):
    name: str = Field(alias="schema")
    epoch: int
    kind: Literal["tree", "grid"]
    bits: int
    leaves: int | None = Field(description="Of the whole tree; null for grids")
    events: int | None = Field(description="Sampled events that were judged; null where nothing was sampled")
    items: list[TreeNode]
    next: str | None = Field(description="Give it as `after` to get what follows; null at the end.")

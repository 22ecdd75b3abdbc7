"""Traces of an event: the query parameters, and the way of the event from switch to switch."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pleroma.service.http.examples import EXAMPLE_EVENT
from pleroma.service.http.models.network import OutputAnswer
from pleroma.service.http.models.strict_model import QueryModel, StrictModel


class TraceQuestion(QueryModel):
    name: str = Field(alias="schema", max_length=200)
    event: str = Field(max_length=8192, description="As JSON", examples=[EXAMPLE_EVENT])
    host: str | None = Field(None, max_length=200, description="Where it enters; by default where it is advertised")
    to: str | None = Field(None, max_length=200, description="A host of which all subscriptions are explained")


class TraceRule(StrictModel):
    dz: str
    outputs: list[OutputAnswer]


class TraceNear(TraceRule):
    shared: int = Field(description="How many bits it has in common with the event")


class TraceOutput(OutputAnswer):
    to: str | None


class TraceStep(StrictModel):
    switch: str
    came_from: str = Field(alias="from")
    in_port: int
    rule: TraceRule | None
    outputs: list[TraceOutput]
    near: list[TraceNear]


class TraceWay(StrictModel):
    host: str
    dz: str
    steps: list[TraceStep]
    receivers: list[str]
    looped: bool


class TraceEdge(StrictModel):
    id: str
    principal: str
    host: str
    filter: str
    reached: bool
    matches: bool
    failed: list[str] = Field(description="The attributes by which the event misses the filter")


class TraceAnswer(StrictModel):
    name: str = Field(alias="schema")
    epoch: int
    event: dict[str, Any]
    host: str
    dz: list[str]
    ways: list[TraceWay]
    reached: list[str]
    subscriptions: list[TraceEdge]

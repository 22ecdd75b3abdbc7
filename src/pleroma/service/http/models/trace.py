"""Traces of an event: the query parameters, the ways of the event from switch to switch, and the verdicts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pleroma.service.http.examples import EXAMPLE_EVENT
from pleroma.service.http.models.network import OutputAnswer
from pleroma.service.http.models.strict_model import QueryModel, StrictModel
from pleroma.service.http.tracing.traced_event import PlanRole
from pleroma.service.http.tracing.verdict import TraceCause
from pleroma.switches.tracing.examined_step import DifferenceKind, Dropped, Standing


class TraceQuestion(QueryModel):
    name: str = Field(alias="schema", max_length=200)
    event: str = Field(max_length=8192, description="As JSON", examples=[EXAMPLE_EVENT])
    host: str | None = Field(None, max_length=200, description="Where it enters; by default where it is advertised")
    to: str | None = Field(None, max_length=200, description="A host of which all subscriptions are explained")
    live: bool = Field(False, description="Read the rules from the switches on the way, and follow those")


class TracePlan(StrictModel):
    epoch: int
    plan: PlanRole = Field(description="While a plan changes, publishers use the `last` or `next` one too")
    dz: list[str] = Field(description="Under which the event is sent by this plan; none if it is not sent")


class TraceTree(StrictModel):
    number: int
    of: int = Field(description="How many trees there are")
    cells: int = Field(description="How many cells of dz travel on this tree")
    first_cells: list[str] = Field(description="The first of them")


class TraceAdmission(StrictModel):
    admitted: bool = Field(description="Whether the host may send it, by the rules wanted")
    cell: str | None = Field(description="The cell that the host has advertised, and that covers the event")
    near: list[str] = Field(description="If it is not admitted: the nearest cells that are")


class TraceFlow(StrictModel):
    dz: str
    outputs: list[OutputAnswer]


class TraceRule(StrictModel):
    dz: str | None = Field(description="None for a rule of somebody else")
    outputs: list[OutputAnswer]
    text: str = Field(description="A rule of somebody else, or what was changed in a rule")


class TraceNear(TraceFlow):
    shared: int = Field(description="How many bits it has in common with the event")


class TraceOutput(OutputAnswer):
    to: str | None
    carries: bool = Field(description="Whether the cable and its far end are there")
    taken: bool = Field(description="Whether whoever is there takes it, by its address")


class TraceDifference(StrictModel):
    kind: DifferenceKind
    text: str


class TraceStep(StrictModel):
    switch: str
    came_from: str = Field(alias="from")
    in_port: int
    standing: Standing = Field(description="Whether the switch has confirmed what is wanted for this event")
    refusal: str | None
    follows: Literal["cell", "link", "rule", "detour", "foreign"] | None
    rule: TraceRule | None
    coarser: bool = Field(description="The rule is a coarser one, since the table has no room for finer ones")
    needless_ports: list[int] = Field(description="Ports that it leaves by only because of that")
    dropped: Dropped | None = Field(description="Why it goes no further")
    outputs: list[TraceOutput]
    near: list[TraceNear]
    differences: list[TraceDifference] = Field(description="With `live`: how the rules differ from those wanted")


class TraceWay(StrictModel):
    epoch: int
    plan: PlanRole
    host: str
    dz: str
    tree: TraceTree | None = Field(description="None where there is one tree for all events")
    admission: TraceAdmission
    steps: list[TraceStep]
    receivers: list[str]
    looped: bool


class TraceVerdict(StrictModel):
    host: str | None = Field(description="None: about the event as a whole")
    cause: TraceCause
    text: str
    epochs: list[int] = Field(description="The plans by which it is so")


class TraceAdvertisement(StrictModel):
    id: str
    principal: str
    host: str
    filter: str
    matches: bool
    failed: list[str] = Field(description="The attributes by which the event misses the filter")


class TraceEdge(TraceAdvertisement):
    reached: bool


class TraceAnswer(StrictModel):
    name: str = Field(alias="schema")
    epoch: int
    phase: Literal["settled", "prepared", "swapped"]
    event: dict[str, Any]
    host: str | None = Field(description="Where it enters; None if none was given and nobody has advertised it")
    live: bool
    plans: list[TracePlan]
    ways: list[TraceWay]
    reached: list[str]
    verdicts: list[TraceVerdict]
    advertisements: list[TraceAdvertisement] = Field(description="Those that cover it, and all at its host")
    subscriptions: list[TraceEdge] = Field(description="Those that match, and all at hosts reached or asked about")

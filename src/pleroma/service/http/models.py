"""What travels: the bodies of requests, and the shapes of answers as the OpenAPI document describes them.

Requests are strict: a field that nobody knows is a mistake and is refused, and so is a number where a text belongs.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pleroma.service.http import paging
from pleroma.service.http.examples import EVENT, INDEX, PLAN, SCHEMA

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""Of schemas and principals: what needs no quoting in an address."""
Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$", description="1 to 64 letters, digits, _ . -")]
MOST_SAMPLES = 2000
"""Events in one request."""
MOST_AGE = 86_400.0
"""Seconds since an event, of which a sample can still be of interest."""
Count = Annotated[int, Field(ge=0, lt=2**53)]
Role = Literal["admin", "publisher", "subscriber", "both", "tuner"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Page(_Model, Generic[T]):
    items: list[T]
    next: str | None = Field(description="Give it as `after` to get what follows; null at the end.")


class Paging(BaseModel):
    """Query parameters are text, so they are not strict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: Annotated[str | None, Field(max_length=200, description="`next` of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = paging.DEFAULT


# -- errors ----------------------------------------------------------------------------------------------------------


class Problem(_Model):
    code: str = Field(examples=["not_allowed"])
    reason: str
    field: str | None
    value: Any
    allowed: str | None = None
    position: int | None = Field(None, description="Where in a filter's text, counted from 1")


class ErrorAnswer(_Model):
    error: Problem


# -- schemas and plans -----------------------------------------------------------------------------------------------


class NewSchema(_Model):
    model_config = ConfigDict(json_schema_extra={"examples": [{"schema": SCHEMA}]})

    definition: dict[str, Any] = Field(alias="schema", description="A schema as in its JSON file")
    bits: Annotated[int, Field(ge=1, le=112)] | None = Field(None, description="How many bits the first plan may use")


class SchemaAnswer(_Model):
    definition: dict[str, Any] = Field(alias="schema", examples=[SCHEMA])
    number: int = Field(description="In the header of its packets")
    prefix: str = Field(description="The bits in front of every dz of this schema", examples=["000000"])
    fingerprint: int
    epoch: int = Field(description="Of the plan in force")


PlanPhase = Literal["prepared", "swapped", "settled"]


class PlanAnswer(_Model):
    epoch: int
    number: int
    prefix: str = Field(examples=["000000"])
    members: int = Field(description="Cells that a registration is enclosed with, at most", examples=[8])
    plan: dict[str, Any] = Field(description="An index plan with its checksum", examples=[PLAN])
    phase: PlanPhase | None = Field(None, description="Of the plan in force: how far a change of plans has come")
    sample: float | None = Field(
        None, description="With the plan in force: the part of their events that publishers send as samples"
    )


class _HowToChange(_Model):
    method: Literal["lightweight", "versioning", "at_once"] = Field(
        "lightweight",
        description="How switches get there: by detours, with both versions for a while, or without care for events",
    )
    wait: bool = Field(True, description="Answer when the change is over, or (false) as soon as it has begun")


class NewPlan(_HowToChange):
    model_config = ConfigDict(json_schema_extra={"examples": [{"index": INDEX, "method": "lightweight"}]})

    index: dict[str, Any] = Field(description="An index as in a plan")
    epoch: int | None = Field(None, ge=1, description="Of the plan that must be in force; refused if another is")


class Rollback(_HowToChange):
    model_config = ConfigDict(json_schema_extra={"examples": [{"epoch": 1}]})

    epoch: int | None = Field(None, ge=1, description="Of an earlier plan; without one, the plan before this one")


class AdoptedPlan(_Model):
    name: str = Field(alias="schema")
    epoch: int = Field(description="Of the plan in force now")
    phase: PlanPhase = Field(description="`settled` when the change is over, or when there was nothing to change")


class TreePaging(Paging):
    at: Annotated[str, Field(max_length=112, pattern="^[01]*$", description="The dz of the node to begin at")] = ""
    depth: Annotated[int, Field(ge=0, le=112, description="How many levels below it")] = 6


class TreeNode(_Model):
    dz: str = Field(description="The way to it from the root; the root's is empty", examples=["01"])
    attribute: str | None = Field(description="Along which it is cut; null for a leaf", examples=["price"])
    cut: float | None = Field(description="The coordinate at which the upper part begins", examples=[100.0])
    children: list[str] | None = Field(description="The dz of the lower and of the upper part")
    leaves: int | None = Field(description="At or below it; null for grids")
    rules: int = Field(description="At or below it, in the tables of all switches")
    fullest: int = Field(description="At or below it, in the table that has most of them")
    events: int | None = Field(description="Events sampled of late in it; null where nothing was sampled")
    deliveries: int | None = Field(description="Of these events to hosts, by the regions in force")
    wasted: int | None = Field(description="Deliveries to hosts at which nobody wants the event")


class TreeAnswer(_Model):
    name: str = Field(alias="schema")
    epoch: int
    kind: Literal["tree", "grid"]
    bits: int
    leaves: int | None = Field(description="Of the whole tree; null for grids")
    events: int | None = Field(description="Sampled events that were judged; null where nothing was sampled")
    items: list[TreeNode]
    next: str | None = Field(description="Give it as `after` to get what follows; null at the end.")


# -- samples ---------------------------------------------------------------------------------------------------------


class Samples(_Model):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "schema": "stock",
                    "epoch": 1,
                    "rate": 0.01,
                    "ages": [0.25, 0.1],
                    "columns": {"price": [151.5, 20.0], "volume": [300, 4], "ticker": ["AAPL", "IBM"]},
                }
            ]
        }
    )

    name: str = Field(alias="schema", max_length=64)
    epoch: int = Field(ge=1, lt=2**31, description="Of the plan that they were published by")
    rate: float = Field(gt=0, le=1, description="The part of all events that these were drawn as")
    ages: list[Annotated[float, Field(ge=0, le=MOST_AGE)]] = Field(
        max_length=MOST_SAMPLES, description="How many seconds ago each event was published"
    )
    columns: dict[str, list[Any]] = Field(
        max_length=1024,
        description="The values of each attribute, one for each event; null where it lacks the attribute",
    )


class SamplesAnswer(_Model):
    taken: int = Field(description="How many there was room for: all or none")


class Sampling(_Model):
    model_config = ConfigDict(json_schema_extra={"examples": [{"rate": 0.01}]})

    rate: float = Field(ge=0, le=1, description="The part of their events that publishers send as samples")


class SamplingAnswer(Sampling):
    name: str = Field(alias="schema")


# -- hosts -----------------------------------------------------------------------------------------------------------


class HostAnswer(_Model):
    name: str = Field(examples=["h1"])
    switch: str = Field(examples=["R7"])
    address: str = Field(examples=["fd00::1"])


class NewHost(_Model):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "kiosk", "switch": "s2", "port": 7, "address": "fd00::77", "mac": "02:00:00:00:00:07"}
            ]
        }
    )

    name: Name
    switch: str = Field(max_length=200)
    port: Annotated[int, Field(ge=1, le=65279)]
    address: str = Field(max_length=64, description="Its IPv6 or IPv4 address")
    mac: str = Field(pattern="^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$", description="Of its network card")


class AttachmentQuestion(_Model):
    lease: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="What the program registers under: a broker tells programs of a principal apart by it"
    )


class Attachment(_Model):
    host: str
    address: str = Field(description="The host's address inside the network")
    range: str = Field(description="The addresses that events travel under", examples=["ff0e::/16"])
    network: str = Field(
        description="`tunnel` to a simulated host, or `native`: the host's own network", examples=["tunnel"]
    )
    udp_host: str | None = Field(None, description="Of a tunnel", examples=["127.0.0.1"])
    port: int = Field(description="Where packets go into the tunnel and attach frames are sent; or of all events")
    secret: str | None = Field(
        None, description="16 bytes in hex, for the attach frame of a tunnel", examples=["0" * 32]
    )
    seconds: float = Field(description="Attach to a tunnel again within this time")


# -- advertisements and subscriptions --------------------------------------------------------------------------------


class Registration(_Model):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"schema": "stock", "filter": "price >= 50", "host": "h1", "key": "my-1"}]}
    )

    name: str = Field(alias="schema", max_length=64)
    filter: Annotated[str, Field(max_length=65_536)] | None = Field(None, description="In the filter language")
    boxes: list[dict[str, Any]] | None = Field(None, description="The same as JSON, for programs")
    host: str = Field(max_length=200)
    key: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="A repetition with the same key and body gets the same answer, and nothing happens twice"
    )
    lease: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="A name of the program's own: what is registered under it stands while it is renewed"
    )

    @model_validator(mode="after")
    def _one_filter(self) -> Self:
        if (self.filter is None) == (self.boxes is None):
            raise ValueError("give one of filter and boxes")
        return self


class SubscriptionAnswer(_Model):
    id: str = Field(examples=["s7"])
    name: str = Field(alias="schema", examples=["stock"])
    host: str = Field(examples=["h1"])
    principal: str
    filter: str = Field(examples=["price >= 50.0"])
    members: int = Field(description="How many dz cover the filter")
    epoch: int
    lease: str | None = Field(description="Null where it stands until it is withdrawn")


class AdvertisementAnswer(SubscriptionAnswer):
    id: str = Field(examples=["a6"])
    publisher: int = Field(description="In the header of its packets")


class RegistrationPaging(Paging):
    name: str | None = Field(None, alias="schema", max_length=200)
    principal: str | None = Field(None, max_length=200)


class Renewal(_Model):
    plans: dict[str, int] = Field(
        description="The epochs of the plans that the client publishes by", examples=[{"stock": 5}], max_length=64
    )


class LeaseAnswer(_Model):
    lease: str
    seconds: float = Field(description="Renew it again within this time")
    registrations: list[str] = Field(description="The ids of what stands under it", examples=[["a6", "s7"]])


# -- principals ------------------------------------------------------------------------------------------------------

Rights = Annotated[
    dict[str, Annotated[str, Field(max_length=65_536)]],
    Field(description='Schema to filter; {"*": "true"} is everything', examples=[{"*": "true"}], max_length=64),
]


class NewPrincipal(_Model):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ticker", "role": "publisher", "publish": {"*": "true"}, "read": {}}],
        }
    )

    name: Name
    role: Role
    publish: Rights = {}
    read: Rights = {}
    subscriptions: Annotated[int, Field(ge=0, le=10_000_000)] | None = None


class PrincipalAnswer(_Model):
    name: str
    role: Role
    publish: dict[str, str]
    read: dict[str, str]
    subscriptions: int | None


class TokenAnswer(_Model):
    name: str
    token: str = Field(description="Shown this once", examples=["plr_…"])


# -- the network -----------------------------------------------------------------------------------------------------


class SwitchAnswer(_Model):
    name: str
    rules: int
    limit: int | None
    wanted: int | None = Field(description="The rules of the exact table, where it did not fit")
    state: str = Field(description="`ready`, `reading` its table, `away` for a moment, or `gone`", examples=["ready"])
    peer: str | None = Field(None, description="Where it is connected from")
    entries: int | None = Field(None, description="All rules it is to have: also those that let events in, and our own")
    refused: list[str] = Field([], description="Why it did not take rules that it should have")
    changed: int = Field(0, description="Rules that were changed on it")
    read: int = Field(0, description="How often its table was read")
    repaired: int = Field(0, description="Rules that somebody else had changed")
    silent: int = Field(0, description="Changes that it did not answer in time")


class NetworkAnswer(_Model):
    kind: str = Field(description="`embedded`, `openflow` or `broker`", examples=["embedded"])
    range: str = Field(description="The addresses that events travel under", examples=["ff0e::/16"])
    switches: dict[str, str] = Field(description="The state of each", examples=[{"R1": "ready"}])
    cut: list[str] = Field(description="Links that carry nothing", examples=[["R1 2 - R2 1"]])
    unreachable: list[str] = Field(description="Hosts that are away or cut off from most others")
    listening: str | None = Field(
        None, description="Where switches connect, or programs send events", examples=["127.0.0.1:6653"]
    )
    strangers: dict[str, str] = Field({}, description="Switches that connected and are none of this network's")
    borders: dict[str, str] = Field({}, description="Ports behind which another controller's network begins")
    above: dict[str, Any] | None = Field(None, description="The broker that this one is joined to, and how that goes")


class OutputAnswer(_Model):
    port: int
    rewrite: str | None = Field(description="The address that the destination is rewritten to")


class FlowAnswer(_Model):
    dz: str
    prefix: str = Field(description="What the rule matches", examples=["ff0e::/22"])
    priority: int
    outputs: list[OutputAnswer]


class TopologyHost(_Model):
    name: str
    switch: str
    port: int
    address: str
    latency: float
    capacity: float | None


class TopologyLink(_Model):
    a: str
    a_port: int
    b: str
    b_port: int
    latency: float
    capacity: float | None


class TopologyAnswer(_Model):
    """Latency in seconds, capacity in bits per second."""

    switches: list[str]
    hosts: list[TopologyHost]
    links: list[TopologyLink]
    limits: dict[str, int]


class StreamQuestion(BaseModel):
    """Query parameters of the stream."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    types: Annotated[
        str | None,
        Field(max_length=200, description="Only these, separated by commas: request, flows, plan, counters"),
    ] = None


class TraceQuestion(BaseModel):
    """Query parameters of a trace."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(alias="schema", max_length=200)
    event: str = Field(max_length=8192, description="As JSON", examples=[EVENT])
    host: str | None = Field(None, max_length=200, description="Where it enters; by default where it is advertised")
    to: str | None = Field(None, max_length=200, description="A host of which all subscriptions are explained")


class TraceRule(_Model):
    dz: str
    outputs: list[OutputAnswer]


class TraceNear(TraceRule):
    shared: int = Field(description="How many bits it has in common with the event")


class TraceOutput(OutputAnswer):
    to: str | None


class TraceStep(_Model):
    switch: str
    came_from: str = Field(alias="from")
    in_port: int
    rule: TraceRule | None
    outputs: list[TraceOutput]
    near: list[TraceNear]


class TraceWay(_Model):
    host: str
    dz: str
    steps: list[TraceStep]
    receivers: list[str]
    looped: bool


class TraceEdge(_Model):
    id: str
    principal: str
    host: str
    filter: str
    reached: bool
    matches: bool
    failed: list[str] = Field(description="The attributes by which the event misses the filter")


class TraceAnswer(_Model):
    name: str = Field(alias="schema")
    epoch: int
    event: dict[str, Any]
    host: str
    dz: list[str]
    ways: list[TraceWay]
    reached: list[str]
    subscriptions: list[TraceEdge]


# -- statistics ------------------------------------------------------------------------------------------------------


class Counters(_Model):
    delivered: Count = 0
    wasted: Count = 0
    duplicates: Count = 0
    dropped: Count = 0


class Report(_Model):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"subscriptions": {"s7": {"delivered": 90, "wasted": 10}}, "published": 5}]}
    )

    subscriptions: Annotated[dict[str, Counters], Field(max_length=10_000)] = {}
    published: Count = 0


class Totals(Counters):
    published: int
    waste: float | None = Field(description="wasted / (delivered + wasted); null before anything arrived")


class PrincipalCounters(Counters):
    published: int


class StatisticsAnswer(_Model):
    position: int
    schemas: int
    advertisements: int
    subscriptions: int
    rules: int = Field(description="In all switches together")
    reported: Totals
    by_subscription: dict[str, Counters]
    principals: dict[str, PrincipalCounters] | None = Field(None, description="For administrators")
    hosts: dict[str, dict[str, int]] | None = Field(None, description="For administrators: the hosts' ports")


class Health(_Model):
    status: Literal["ok", "degraded"] = Field(description="degraded: the network or the snapshots cannot keep up")
    version: str
    position: int = Field(description="How far the log has been followed")

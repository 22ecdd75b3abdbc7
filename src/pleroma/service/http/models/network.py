"""The network: its condition, topology, switches and rules."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pleroma.service.http.models.pages import Paging
from pleroma.service.http.models.strict_model import StrictModel


class SwitchAnswer(StrictModel):
    name: str
    rules: int
    limit: int | None
    wanted: int | None = Field(description="The rules of the exact table, where it did not fit")
    confirmed: int = Field(description="The position of the log up to which the switch has confirmed everything")
    unconfirmed: int = Field(description="Changes that the switch has not confirmed yet")
    waiting: float = Field(description="For how many seconds the oldest of these has been waiting")
    failure: str | None = Field(None, description="Why the last attempt to change its rules failed, while it is behind")
    state: str = Field(description="`ready`, `reading` its table, `away` for a moment, or `gone`", examples=["ready"])
    peer: str | None = Field(None, description="Where it is connected from")
    entries: int | None = Field(None, description="All rules it is to have: also those that let events in, and our own")
    refused: list[str] = Field([], description="Why it did not take rules that it should have")
    changed: int = Field(0, description="Rules that were changed on it")
    read: int = Field(0, description="How often its table was read")
    repaired: int = Field(0, description="Rules that somebody else had changed")
    refusals: int = Field(0, description="Changes that it refused")
    silent: int = Field(0, description="Changes that it did not answer in time")


class NetworkAnswer(StrictModel):
    kind: str = Field(description="`embedded`, `openflow` or `broker`", examples=["embedded"])
    range: str = Field(description="The addresses that events travel under", examples=["ff0e::/16"])
    switches: dict[str, str] = Field(description="The state of each", examples=[{"R1": "ready"}])
    cut: list[str] = Field(description="Links that carry nothing", examples=[["R1 2 - R2 1"]])
    unreachable: list[str] = Field(description="Hosts that are away or cut off from most others")
    listening: str | None = Field(
        None, description="Where switches connect, or programs send events", examples=["127.0.0.1:6653"]
    )
    strangers: dict[str, str] = Field({}, description="The last switches that were turned away: from where, and why")
    borders: dict[str, str] = Field({}, description="Ports behind which another controller's network begins")
    above: dict[str, Any] | None = Field(None, description="The broker that this one is joined to, and how that goes")


class OutputAnswer(StrictModel):
    port: int
    rewrite: str | None = Field(description="The address that the destination is rewritten to")


class FlowAnswer(StrictModel):
    dz: str
    prefix: str = Field(description="What the rule matches", examples=["ff0e::/22"])
    priority: int = Field(description="As the switch has it")
    packets: int | None = Field(
        None, description="Packets that followed it, if asked for and if the switch counts them"
    )
    outputs: list[OutputAnswer]


class FlowPaging(Paging):
    counts: bool = Field(False, description="Read from the switch how many packets have followed each rule")


class TopologyHost(StrictModel):
    name: str
    switch: str
    port: int
    address: str
    latency: float
    capacity: float | None


class TopologyLink(StrictModel):
    a: str
    a_port: int
    b: str
    b_port: int
    latency: float
    capacity: float | None


class TopologyAnswer(StrictModel):
    """Latency in seconds, capacity in bits per second."""

    switches: list[str]
    hosts: list[TopologyHost]
    links: list[TopologyLink]
    limits: dict[str, int]

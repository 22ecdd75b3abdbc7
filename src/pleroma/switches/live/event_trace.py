"""Why an event reaches a host or does not: the rule that it matches at every switch, and those that nearly match."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.routing.flow import Flow
from pleroma.routing.topology import HostId, Port, SwitchId
from pleroma.switches.live.path import EventHop, find_path
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork

MAX_NEAR_MISSES = 3
"""Rules that nearly match, which a trace shows for each switch."""


class NearMiss(NamedTuple):
    """A rule that does not match, and how many bits from the left it shares with the event."""

    flow: Flow
    shared: int


class Onward(NamedTuple):
    """A port by which the event leaves. `to` is a switch or a host; None if nothing is connected to the port."""

    port: Port
    to: SwitchId | HostId | None
    rewrite: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """The event at one switch. `near` are the rules that nearly match it, the nearest first."""

    switch: SwitchId
    came_from: SwitchId | HostId
    in_port: Port
    rule: Flow | None
    outputs: tuple[Onward, ...]
    near: tuple[NearMiss, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "switch": self.switch,
            "from": self.came_from,
            "in_port": self.in_port,
            "rule": None if self.rule is None else _flow_json(self.rule),
            "outputs": [output._asdict() for output in self.outputs],
            "near": [_flow_json(flow) | {"shared": shared} for flow, shared in self.near],
        }


@dataclass(frozen=True, slots=True)
class Trace:
    """The path of an event from a host. If it `looped`, the tables lead in circles, and every line is shown once."""

    host: HostId
    dz: Dz
    steps: tuple[Step, ...]
    receivers: tuple[HostId, ...]
    looped: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "dz": str(self.dz),
            "steps": [step.to_json() for step in self.steps],
            "receivers": list(self.receivers),
            "looped": self.looped,
        }


def trace(network: EmbeddedNetwork, host: str, dz: Dz) -> Trace:
    """Trace an event from a host. Zeros fill up its address on the wire, so it can match rules longer than its dz."""
    sender = network.topology.find_host(host)
    event = Dz(1 << MAX_LENGTH | dz.start)
    path = find_path(network.cables, network.tables, network.topology.hosts.index(sender), event)
    steps = tuple(_step(network, hop, event) for hop in path.hops)
    return Trace(sender.name, dz, steps, tuple(receiver.name for receiver in path.receivers), path.looped)


def _step(network: EmbeddedNetwork, hop: EventHop, event: Dz) -> Step:
    lines = network.cables.lines
    line = lines[hop.arrival]
    switch = SwitchId(line.target)
    assert line.target_port is not None  # noqa: S101 (a switch has port numbers)
    return Step(
        switch=switch,
        came_from=line.source,
        in_port=line.target_port,
        rule=hop.flow,
        outputs=tuple(
            Onward(port, None if number is None else lines[number].target, rewrite)
            for port, number, rewrite in hop.departures
        ),
        near=nearest(network.tables[switch], event),
    )


def nearest(flows: Iterable[Flow], event: Dz, max_rules: int = MAX_NEAR_MISSES) -> tuple[NearMiss, ...]:
    """The rules that share most bits with an event of full length but do not match it; shorter rules first."""
    missed = (NearMiss(flow, shared) for flow in flows if (shared := _shared(flow.dz, event)) < flow.dz.length)
    return tuple(heapq.nlargest(max_rules, missed, key=lambda near: (near.shared, -near.flow.dz.length, -near.flow.dz)))


def _shared(dz: Dz, event: Dz) -> int:
    """How many bits from the left the two have in common."""
    extra = event.bit_length() - dz.bit_length()  # not below zero: the event has all bits
    return dz.bit_length() - 1 - (event >> extra ^ dz).bit_length()


def _flow_json(flow: Flow) -> dict[str, Any]:
    return {"dz": str(flow.dz), "outputs": [output._asdict() for output in flow.outputs]}

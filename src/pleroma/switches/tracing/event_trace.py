"""The way of an event from a host through the rules of all switches: a step for each switch that it comes to.

A trace follows whatever rules it is given: those that the controller wants, or those that were read from the switches.
It is a value that says nothing of why rules are as they are; `examined_step` compares, `verdict` draws conclusions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.routing.flow import Flow, Output
from pleroma.routing.presence import Presence
from pleroma.routing.topology import HostId, Port, SwitchId, Topology
from pleroma.switches.live.path import EventHop, find_path
from pleroma.switches.simulated.cables import Cables, Line
from pleroma.switches.tracing.meeting import Meeting, SwitchRules

MAX_NEAR_MISSES = 3
"""Rules that nearly match, which a trace shows for each switch."""


class NearMiss(NamedTuple):
    """A rule that does not match, and how many bits from the left it shares with the event."""

    flow: Flow
    shared: int


class Onward(NamedTuple):
    """A port by which the event leaves. `to` is a switch or a host; None if nothing is connected to the port.

    If the cable or its far end is down (`carries`), or the address is not that of the host there (`taken`), the event
    goes no further.
    """

    port: Port
    to: SwitchId | HostId | None
    rewrite: str | None
    carries: bool
    taken: bool


@dataclass(frozen=True, slots=True)
class Step:
    """The event at one switch, after the step of number `before` (None: it comes from a host).

    `meeting` is None if the event came with an address that is no event's.
    """

    switch: SwitchId
    came_from: SwitchId | HostId
    in_port: Port
    before: int | None
    meeting: Meeting | None
    outputs: tuple[Onward, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """The path of an event from a host. If it `looped`, the tables lead in circles, and every line is shown once.

    A host that is away (`is_away`) sends nothing, and there are no steps.
    """

    host: HostId
    dz: Dz
    steps: tuple[Step, ...]
    receivers: tuple[HostId, ...]
    looped: bool = False
    is_away: bool = False

    def route(self, receiver: str) -> tuple[int, ...]:
        """The numbers of the steps that lead to a receiver, from its own switch back to the first; none if none do."""
        for number, step in enumerate(self.steps):
            if any(output.to == receiver and output.carries and output.taken for output in step.outputs):
                found = [number]
                while (before := self.steps[found[-1]].before) is not None:
                    found.append(before)
                return tuple(found)
        return ()


def on_the_wire(dz: Dz) -> Dz:
    """The dz that switches see: zeros fill up the address of an event, so it can match rules longer than its dz."""
    return Dz(1 << MAX_LENGTH | dz.start)


@dataclass(frozen=True)
class Wires:
    """A network's cables, and which of them carry something at the moment."""

    topology: Topology
    presence: Presence

    @property
    def cables(self) -> Cables:
        return Cables(self.topology)

    def carries(self, line: Line) -> bool:
        """Whether a line and both of its ends are there."""
        ends = ((line.source, line.source_port), (line.target, line.target_port))
        return not any(end in self.presence.down or end[0] in self.presence.absent for end in ends)


def trace(wires: Wires, rules: Mapping[SwitchId, SwitchRules], host: str, dz: Dz) -> Trace:
    """Trace an event from a host through the rules of every switch."""
    return _Tracing(wires, rules).trace(host, dz)


class _Tracing:
    def __init__(self, wires: Wires, rules: Mapping[SwitchId, SwitchRules]) -> None:
        self._wires = wires
        self._cables = wires.cables
        self._rules = rules

    def trace(self, host: str, dz: Dz) -> Trace:
        topology, event = self._cables.topology, on_the_wire(dz)
        sender = topology.find_host(host)
        number = topology.hosts.index(sender)
        if not self._wires.carries(self._cables.lines[self._cables.uplink(number)]):
            return Trace(sender.name, dz, (), (), is_away=True)
        path = find_path(self._cables, self._carried_on, number, event)
        steps: list[Step] = []
        for hop in path.hops:
            steps.append(self._step(hop, event, steps))
        return Trace(sender.name, dz, tuple(steps), tuple(each.name for each in path.receivers), path.looped)

    def _meet(self, arrival: int, event: Dz) -> Meeting:
        line = self._cables.lines[arrival]
        return self._rules[SwitchId(line.target)].meet(_port(line), event)

    def _carried_on(self, arrival: int, event: Dz) -> Flow:
        """Where the event goes on: the outputs that it leaves by, as far as a cable carries them."""
        meeting = self._meet(arrival, event)
        switch = SwitchId(self._cables.lines[arrival].target)
        return Flow(event, tuple(each for each in meeting.outputs if self._is_carried(switch, each)))

    def _is_carried(self, switch: SwitchId, output: Output) -> bool:
        line = self._cables.leaving.get((switch, output.port))
        return line is None or self._wires.carries(self._cables.lines[line])

    def _step(self, hop: EventHop, event: Dz, earlier: list[Step]) -> Step:
        line = self._cables.lines[hop.arrival]
        switch, in_port = SwitchId(line.target), _port(line)
        meeting = None if hop.flow is None else self._meet(hop.arrival, event)  # None: it came with another address
        outputs = () if meeting is None else tuple(each for each in meeting.outputs if each.port != in_port)
        return Step(
            switch=switch,
            came_from=line.source,
            in_port=in_port,
            before=next((n for n, step in enumerate(earlier) if step.switch == line.source), None),
            meeting=meeting,
            outputs=tuple(self._onward(switch, each) for each in outputs),
        )

    def _onward(self, switch: SwitchId, output: Output) -> Onward:
        number = self._cables.leaving.get((switch, output.port))
        if number is None:
            return Onward(output.port, None, output.rewrite, carries=False, taken=False)
        host = self._cables.host_behind(number)
        taken = output.rewrite is None if host is None else output.rewrite == host.address
        line = self._cables.lines[number]
        return Onward(output.port, line.target, output.rewrite, self._wires.carries(line), taken)


def nearest(flows: Iterable[Flow], event: Dz, max_rules: int = MAX_NEAR_MISSES) -> tuple[NearMiss, ...]:
    """The rules that share most bits with an event of full length but do not match it; shorter rules first."""
    missed = (NearMiss(flow, shared) for flow in flows if (shared := shared_bits(flow.dz, event)) < flow.dz.length)
    return tuple(heapq.nlargest(max_rules, missed, key=lambda near: (near.shared, -near.flow.dz.length, -near.flow.dz)))


def shared_bits(dz: Dz, event: Dz) -> int:
    """How many bits from the left a dz has in common with an event of full length."""
    extra = event.bit_length() - dz.bit_length()  # not below zero: the event has all bits
    return dz.bit_length() - 1 - (event >> extra ^ dz).bit_length()


def _port(line: Line) -> Port:
    assert line.target_port is not None  # noqa: S101 (a switch has port numbers)
    return line.target_port

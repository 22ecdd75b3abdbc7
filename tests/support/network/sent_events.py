"""Events that were sent while plans changed, with all that explains the loss of one."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pleroma.control.transition.plan_change import ChangePhase
from pleroma.index import Dz
from pleroma.routing import HostId, SwitchId
from pleroma.switches.tracing.event_trace import Wires, trace
from pleroma.switches.tracing.meeting import TracedTables
from pleroma.switches.tracing.wanted_rules import wanted_rules
from support.network.switch_ports import dropped_packets, pauses
from support.network.world import World

Phase = ChangePhase | Literal["settled"]
MAX_TOLD_EVENTS = 12
"""Lost events of one kind whose way is told."""


@dataclass(frozen=True)
class Sending:
    """An event as it was sent: by the plan of an epoch, while the controller was in a phase of that or another one."""

    host: HostId
    dz: Dz
    seconds: float
    """After the first of all."""
    epoch: int
    controller: tuple[int, Phase]
    stopped: bool

    @property
    def circumstances(self) -> str:
        state = "stopped" if self.stopped else "running"
        return f"from {self.host} by plan {self.epoch}, the controller {state} in plan {self.controller}"


class SentEvents:
    """Sends for the publishers of a test, and tells what became of it."""

    def __init__(self, made: World) -> None:
        self.made = made
        self._sendings: dict[bytes, Sending] = {}
        self._begin = time.monotonic()
        self._rules: dict[tuple[int, Phase], Mapping[SwitchId, TracedTables]] = {}
        """By epoch and phase of the controller: the rules that it wanted."""

    @property
    def _now(self) -> tuple[int, Phase]:
        state = self.made.controller.state
        return state.schemas["weather"].epoch, state.plans.phase("weather")

    def note_rules(self) -> None:
        """Keep the rules that the controller wants now, if it is in another phase. Call it in its thread."""
        if self._now not in self._rules:
            rules = self.made.controller.state.rules
            wanted = wanted_rules(self._wires.topology, rules.router, rules.detours, rules.admissions)
            self._rules[self._now] = {
                switch: replace(table, rules=table.rules.copy(), detours=table.detours.copy())
                for switch, table in wanted.items()
            }

    @property
    def _wires(self) -> Wires:
        return Wires(self.made.plane.topology(), self.made.plane.presence())

    def send(self, host: HostId, dz: Dz, payload: bytes, epoch: int) -> None:
        seconds = time.monotonic() - self._begin
        self._sendings[payload] = Sending(host, dz, seconds, epoch, self._now, self.made.is_stopped)
        self.made.hosts.send(host, dz, payload)

    def told(self, lost: Counter[tuple[HostId, bytes]]) -> str:
        """What was lost, in words: when, by which plan, and where it might have been."""
        return "\n".join(self._lines(lost)) if lost else ""

    def _lines(self, lost: Counter[tuple[HostId, bytes]]) -> Iterator[str]:
        yield f"{len(lost)} of {len(self._sendings)} events did not come everywhere"
        yield f"packets dropped at ports of switches, for want of room: {dropped_packets(self.made.lab) or 'none'}"
        yield f"pauses of the switches: {pauses(self.made.lab) or 'none'}"
        groups: dict[str, list[tuple[Sending, HostId, bytes]]] = {}
        for receiver, payload in lost:
            sent = self._sendings[payload]
            groups.setdefault(sent.circumstances, []).append((sent, receiver, payload))
        for circumstances, events in groups.items():
            times = f"at {events[0][0].seconds:.3f} to {events[-1][0].seconds:.3f} s"
            yield f"{circumstances}, {times}: {len(events)}, such as"
            for sent, receiver, payload in events[:MAX_TOLD_EVENTS]:
                yield f"  {payload.decode()} to {receiver} at {sent.seconds:.3f} s: {self._way(sent)}"

    def _way(self, sent: Sending) -> str:
        """The switches that an event passes by the rules that were wanted then, with the rule at each."""
        rules = self._rules.get(sent.controller)
        if rules is None:
            return "the rules of that moment were not noted"
        way = trace(self._wires, rules, sent.host, sent.dz)
        met = [(step.switch, None if step.meeting is None else step.meeting.followed) for step in way.steps]
        said = [f"{switch} {'no rule' if rule is None else f'{rule.kind} {rule.dz}'}" for switch, rule in met]
        return f"{', '.join(said)}, to {', '.join(way.receivers) or 'nobody'}"

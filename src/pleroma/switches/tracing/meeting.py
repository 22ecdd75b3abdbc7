"""What an event meets at a switch: the rule that admits it, the rule that it follows, and the ports that it leaves by.

The same question can be put to the rules that the controller wants, to those that a switch has confirmed, and to those
that are read back from it (`SwitchRules`), so that the answers can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pleroma.index.dz import Dz
from pleroma.routing.flow import Flow, FlowTable, Output
from pleroma.routing.topology import Port
from pleroma.switches.switch_status import SwitchState

RuleKind = Literal["cell", "link", "rule", "detour", "foreign"]
"""`cell` admits what a host has advertised, `link` what comes from another switch; `rule` and `detour` forward. A
`foreign` rule is none that this controller writes.
"""


@dataclass(frozen=True, slots=True)
class MetRule:
    """A rule that an event meets. `dz` is None where a rule is for all events, and for foreign rules.

    `text` describes what the other fields cannot: a foreign rule, or a part of a rule that somebody changed.
    """

    kind: RuleKind
    dz: Dz | None = None
    outputs: tuple[Output, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Meeting:
    """An event at a switch. Without `admitted_by` it was dropped at the port; without `followed`, no rule forwards it.

    A foreign rule may do both, or drop what it admits: then it is both `admitted_by` and `followed`, without outputs.
    `in_front` are foreign rules of higher priority that may match, by fields that are not known of an event. `is_clear`
    is False if the rule that is followed does more than can be foretold.
    """

    admitted_by: MetRule | None
    followed: MetRule | None = None
    outputs: tuple[Output, ...] = ()
    in_front: tuple[MetRule, ...] = field(default=(), compare=False)
    is_clear: bool = True


class SwitchStanding(NamedTuple):
    """What is known of a switch: its state, what an event meets by the rules that it has confirmed, what it refuses."""

    state: SwitchState
    confirmed: Meeting | None
    """None if it is not known which rules the switch has."""
    refused: tuple[str, ...] = ()


class SwitchRules(Protocol):
    """The rules of one switch."""

    def meet(self, in_port: Port, event: Dz) -> Meeting:
        """What happens to an event (a dz of full length) that comes in at a port."""

    def find(self, in_port: Port, kind: RuleKind, dz: Dz | None) -> MetRule | None:
        """The rule of exactly this kind and dz, whether or not an event meets it."""

    def forwarding(self) -> Iterable[Flow]:
        """The rules that forward, without detours and foreign rules."""


@dataclass(frozen=True, slots=True)
class TracedTables:
    """`SwitchRules` as the router knows them: `rules`, `detours` above them, and the cells admitted at hosts' ports.

    `exact` are the rules before they were made fewer for want of room, if they were.
    """

    rules: FlowTable
    detours: FlowTable
    admitted: Mapping[Port, Set[Dz]]
    exact: FlowTable | None = None

    def meet(self, in_port: Port, event: Dz) -> Meeting:
        admitted_by = self._admission(in_port, event)
        if admitted_by is None:
            return Meeting(None)
        kind: RuleKind = "detour"
        flow = self.detours.lookup(event)
        if flow is None:
            kind, flow = "rule", self.rules.lookup(event)
        if flow is None:
            return Meeting(admitted_by)
        return Meeting(admitted_by, MetRule(kind, flow.dz, flow.outputs), flow.outputs)

    def _admission(self, in_port: Port, event: Dz) -> MetRule | None:
        cells = self.cells(in_port)
        if cells is None:
            return MetRule("link")
        covering = (Dz(event >> shift) for shift in range(event.length + 1))
        return next((MetRule("cell", dz) for dz in covering if dz in cells), None)

    def find(self, in_port: Port, kind: RuleKind, dz: Dz | None) -> MetRule | None:
        cells = self.cells(in_port)
        if kind == "link":
            return MetRule("link") if cells is None else None
        if kind == "cell":
            return MetRule("cell", dz) if cells is not None and dz in cells else None
        table = {"rule": self.rules, "detour": self.detours}.get(kind)
        flow = None if table is None or dz is None else table.at(dz)
        return None if flow is None else MetRule(kind, flow.dz, flow.outputs)

    def forwarding(self) -> Iterable[Flow]:
        return self.rules

    def cells(self, in_port: Port) -> Set[Dz] | None:
        """The cells that are admitted at a port; None at a port where another switch is."""
        return self.admitted.get(in_port)

    def needless(self, event: Dz) -> tuple[Port, ...] | None:
        """The ports that an event leaves by only because its rule is a coarser one; None if it is no coarser one."""
        flow = self.rules.lookup(event)
        if self.exact is None or flow is None or self.exact.at(flow.dz) == flow:
            return None
        exact = self.exact.lookup(event)
        return tuple(port for port in flow.ports if exact is None or port not in exact.ports)

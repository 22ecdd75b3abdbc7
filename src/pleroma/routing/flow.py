"""A rule of a switch, the rules of one switch, and one change to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from pleroma.errors import RoutingError
from pleroma.index.dz import Dz
from pleroma.routing.topology import Port, SwitchId


class Output(NamedTuple):
    """Send through `port`; where a host hangs there, rewrite the destination to its address first."""

    port: Port
    rewrite: str | None = None


class Flow(NamedTuple):
    """Events in `dz` leave through `outputs` (sorted by port), except through the port they came in by."""

    dz: Dz
    outputs: tuple[Output, ...]

    @property
    def ports(self) -> tuple[Port, ...]:
        return tuple(output.port for output in self.outputs)

    @property
    def priority(self) -> int:
        """Longer dz first: the switch follows only the first match."""
        return self.dz.length

    def __str__(self) -> str:
        return f"{self.dz} -> {','.join(map(str, self.ports))}"


class Change(StrEnum):
    """What happens to one rule; the same word from a request down to the bytes for a switch."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


class FlowOp(NamedTuple):
    """One change to one switch. A deletion carries the flow as it was."""

    switch: SwitchId
    change: Change
    flow: Flow

    @property
    def depth(self) -> int:
        return self.flow.dz.bit_length()

    def __str__(self) -> str:
        return f"{self.switch}: {self.change} {self.flow}"


class FlowTable:
    """The rules of one switch, by dz. Looking up follows the longest prefix, as a switch does by priority."""

    __slots__ = ("_flows",)

    def __init__(self, flows: Iterable[Flow] = ()) -> None:
        self._flows: dict[Dz, Flow] = {flow.dz: flow for flow in flows}

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())

    def __contains__(self, dz: object) -> bool:
        return dz in self._flows

    def __getitem__(self, dz: Dz) -> Flow:
        return self._flows[dz]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlowTable) and self._flows == other._flows

    __hash__ = None  # type: ignore[assignment]  # a table changes

    def __repr__(self) -> str:
        return f"FlowTable({'; '.join(map(str, sorted(self._flows.values(), key=lambda f: (f.dz.start, f.dz))))})"

    def at(self, dz: int) -> Flow | None:
        """The rule of exactly this dz."""
        return cast(Mapping[int, Flow], self._flows).get(dz)  # a Dz is an int, and hashes as one

    def copy(self) -> FlowTable:
        return FlowTable(self)

    def lookup(self, dz: int) -> Flow | None:
        """The rule that an event of this dz meets first. An event has all bits: no rule is longer."""
        flows = cast(Mapping[int, Flow], self._flows)
        while dz:
            if dz in flows:
                return flows[dz]
            dz >>= 1
        return None

    def covering(self, dz: int) -> Flow | None:
        """The nearest rule above `dz`, leaving out one at `dz` itself."""
        return self.lookup(dz >> 1)

    def put(self, flow: Flow) -> None:
        """Have this rule, whether or not there was one at its dz."""
        self._flows[flow.dz] = flow

    def drop(self, dz: Dz) -> None:
        del self._flows[dz]

    def apply(self, op: FlowOp) -> None:
        """Carry out an operation from outside, and refuse one that does not fit."""
        present = op.flow.dz in self._flows
        if present != (op.change is not Change.ADD):
            state = "already there" if present else "not there"
            raise RoutingError(f"cannot {op.change} {op.flow.dz}: the rule is {state}", field=op.switch)
        if op.change is Change.DELETE:
            del self._flows[op.flow.dz]
        else:
            self._flows[op.flow.dz] = op.flow


class OrderedChange(Protocol):
    """A change to one rule. `depth` is larger for the rule that an event should find in place first.

    That is the longer dz in one table, and the later table where events pass through several.
    """

    @property
    def change(self) -> Change: ...

    @property
    def depth(self) -> Any: ...


Op = TypeVar("Op", bound=OrderedChange)


def in_safe_order(ops: Iterable[Op]) -> list[Op]:
    """Additions from deep to shallow, then modifications, then deletions from shallow to deep.

    Applied one by one in this order, no event that is wanted both before and after is lost in between. An event that
    meets a new rule finds all deeper new rules in place, so it is treated as it will be in the end. No rule is deleted
    before the last addition is in force. A deleted rule uncovers rules of the new state, never a shallower old rule.
    This is the one place that orders operations: those of the router, admissions, and what a switch is sent.
    """
    kinds: dict[Change, list[Op]] = {Change.ADD: [], Change.MODIFY: [], Change.DELETE: []}
    for op in ops:
        kinds[op.change].append(op)
    kinds[Change.ADD].sort(key=_depth, reverse=True)
    kinds[Change.DELETE].sort(key=_depth)
    return [*kinds[Change.ADD], *kinds[Change.MODIFY], *kinds[Change.DELETE]]


def _depth(op: OrderedChange) -> Any:
    return op.depth


def difference(switch: SwitchId, before: FlowTable, after: FlowTable) -> list[FlowOp]:
    """What turns one table into the other."""
    ops = [FlowOp(switch, Change.DELETE, flow) for flow in before if flow.dz not in after]
    for flow in after:
        if flow.dz not in before:
            ops.append(FlowOp(switch, Change.ADD, flow))
        elif before[flow.dz] != flow:
            ops.append(FlowOp(switch, Change.MODIFY, flow))
    return ops

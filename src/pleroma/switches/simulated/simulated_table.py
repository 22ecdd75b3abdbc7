"""A flow table as a switch has it: prefix matches by priority, a limited number of entries, counters for each rule.

This defines what a table does; other forms of a table must agree with it. `match` scans by priority, slow and plain;
`lookup` tries the lengths that are present, longest first, and finds the same. A bundle takes effect as a whole or not
at all.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import neg
from typing import NamedTuple

from pleroma.errors import RoutingError, TableFull
from pleroma.index.dz import Dz
from pleroma.routing.detour import DetourOp, RuleOp
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable
from pleroma.routing.topology import SwitchId


@dataclass(slots=True)
class Hits:
    """What a rule has forwarded since it was added. Modifying a rule keeps its counts."""

    packets: int = 0
    bytes: int = 0


class _Entry(NamedTuple):
    flow: Flow
    hits: Hits


class _Prefixes:
    """Entries by dz; `find` returns the longest entry that covers an event."""

    def __init__(self) -> None:
        self.entries: dict[Dz, _Entry] = {}
        self._by_length: dict[int, dict[int, _Entry]] = {}
        self._lengths: list[int] = []  # those present, longest first

    def copy(self) -> _Prefixes:
        """Other entries, with the same counters."""
        made = _Prefixes()
        made.entries = self.entries.copy()
        made._by_length = {length: entries.copy() for length, entries in self._by_length.items()}
        made._lengths = self._lengths.copy()
        return made

    def find(self, dz: Dz) -> _Entry | None:
        full = dz.length
        for length in self._lengths:
            if length <= full:
                entry = self._by_length[length].get(dz >> full - length)
                if entry is not None:
                    return entry
        return None

    def put(self, dz: Dz, entry: _Entry | None) -> None:
        """Set the entry at `dz`; None removes it."""
        length = dz.length
        if entry is not None:
            if length not in self._by_length:
                self._by_length[length] = {}
                insort(self._lengths, length, key=neg)
            self.entries[dz] = self._by_length[length][dz] = entry
        elif self.entries.pop(dz, None) is not None:
            del self._by_length[length][dz]
            if not self._by_length[length]:
                del self._by_length[length]
                self._lengths.remove(length)


class SimulatedTable:
    """The table of one switch; without a limit if `capacity` is None. Detours have priority over rules."""

    def __init__(self, switch: SwitchId, capacity: int | None = None, flows: Iterable[Flow] = ()) -> None:
        self.switch = switch
        self.capacity = capacity
        self._rules = _Prefixes()
        self._detours = _Prefixes()
        self.bundle(FlowOp(switch, Change.ADD, flow) for flow in flows)

    def __len__(self) -> int:
        return len(self._rules.entries)

    def __iter__(self) -> Iterator[Flow]:
        return (entry.flow for entry in self._rules.entries.values())

    def __contains__(self, dz: object) -> bool:
        return dz in self._rules.entries

    def copy(self) -> SimulatedTable:
        """A table with the same rules, which share their counters with those of this table."""
        made = SimulatedTable(self.switch, self.capacity)
        made._rules, made._detours = self._rules.copy(), self._detours.copy()
        return made

    def has(self, op: RuleOp) -> bool:
        """Whether there is the rule or the detour that an operation is about."""
        return op.flow.dz in self._place(op).entries

    @property
    def detours(self) -> list[Flow]:
        return [entry.flow for entry in self._detours.entries.values()]

    @property
    def size(self) -> int:
        """Rules and detours, which both take room."""
        return len(self) + len(self._detours.entries)

    def hits(self, dz: Dz) -> Hits:
        """The counters of the rule at exactly this dz."""
        if dz not in self._rules.entries:
            raise RoutingError(f"there is no rule {dz}", field=self.switch, value=str(dz))
        return self._rules.entries[dz].hits

    def count(self, flow: Flow, packets: int, size: int) -> None:
        """Count packets, of `size` bytes in all, that followed this rule or detour."""
        for rules in (self._detours, self._rules):
            entry = rules.entries.get(flow.dz)
            if entry is not None and entry.flow == flow:
                entry.hits.packets += packets
                entry.hits.bytes += size
                return

    def flows(self) -> FlowTable:
        """The rules as they are now, as the routing knows them."""
        return FlowTable(self)

    def match(self, dz: Dz) -> Flow | None:
        """The rule of the highest priority that matches, by looking at all of them."""
        for rules in (self.detours, self):
            by_priority = sorted(rules, key=lambda flow: flow.priority, reverse=True)
            found = next((flow for flow in by_priority if flow.dz.covers(dz)), None)
            if found is not None:
                return found
        return None

    def lookup(self, dz: Dz) -> Flow | None:
        """The rule that `match` finds, found faster."""
        entry = self._find(dz)
        return None if entry is None else entry.flow

    def forward(self, dz: Dz, size: int) -> Flow | None:
        """The rule that a packet follows, which counts it."""
        entry = self._find(dz)
        if entry is None:
            return None
        entry.hits.packets += 1
        entry.hits.bytes += size
        return entry.flow

    def _find(self, dz: Dz) -> _Entry | None:
        if self._detours.entries:
            entry = self._detours.find(dz)
            if entry is not None:
                return entry
        return self._rules.find(dz)

    def apply(self, ops: Iterable[RuleOp]) -> None:
        """Carry out operations one by one; those before a refused one stay done."""
        for op in ops:
            self._check(op)
            if op.change is Change.ADD and self.size == self.capacity:
                raise self._full(op.flow, self.size + 1)
            self._do(op)

    def bundle(self, ops: Iterable[RuleOp]) -> None:
        """Carry out all operations or none. Only the outcome has to fit, so that a full table can turn over."""
        undo: list[tuple[_Prefixes, Dz, _Entry | None]] = []
        try:
            for op in ops:
                self._check(op)
                rules = self._place(op)
                undo.append((rules, op.flow.dz, rules.entries.get(op.flow.dz)))
                self._do(op)
            if self.capacity is not None and self.size > self.capacity and undo:
                raise self._full(op.flow, self.size)
        except BaseException:
            for rules, dz, entry in reversed(undo):
                rules.put(dz, entry)
            raise

    def clear(self) -> None:
        self._rules, self._detours = _Prefixes(), _Prefixes()

    def _place(self, op: RuleOp) -> _Prefixes:
        return self._detours if isinstance(op, DetourOp) else self._rules

    def _check(self, op: RuleOp) -> None:
        if op.switch != self.switch:
            raise RoutingError(f"the operation is for {op.switch}", field=self.switch, value=str(op))
        check_outputs(op.flow, self.switch)
        present = op.flow.dz in self._place(op).entries
        if present != (op.change is not Change.ADD):
            state = "already there" if present else "not there"
            raise RoutingError(
                f"cannot {op.change} {op.flow.dz}: the rule is {state}", field=self.switch, value=str(op.flow.dz)
            )

    def _do(self, op: RuleOp) -> None:
        dz, rules = op.flow.dz, self._place(op)
        match op.change:
            case Change.ADD:
                rules.put(dz, _Entry(op.flow, Hits()))
            case Change.MODIFY:
                rules.put(dz, _Entry(op.flow, rules.entries[dz].hits))
            case Change.DELETE:
                rules.put(dz, None)

    def _full(self, flow: Flow, size: int) -> TableFull:
        return TableFull(
            f"no room for {flow.dz}: {size} rules, the table holds {self.capacity}", field=self.switch, value=size
        )


def check_outputs(flow: Flow, switch: str | None = None) -> None:
    """A rule names a port once; twice would deliver twice."""
    if len({port for port, _ in flow.outputs}) != len(flow.outputs):
        raise RoutingError(f"the rule {flow} names a port twice", field=switch, value=str(flow.dz))

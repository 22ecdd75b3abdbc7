"""The rules of one OpenFlow switch, whoever wrote them, in the form in which an event can be followed through them.

An event passes table 0, which admits it or not, and follows a rule of table 1. In either table, a rule of somebody else
may come first: it is followed as far as it can be understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from typing import Self

from pleroma.index.dz import Dz
from pleroma.routing import Flow, Output, Port
from pleroma.switches.openflow.flow_stats import EntryEffect, FoundEntry
from pleroma.switches.openflow.rule import (
    CONTROLLER_PORT,
    ETH_TYPE_IPV4,
    ETH_TYPE_IPV6,
    IP_PROTO_UDP,
    MAX_PORT,
    CountedRule,
    Key,
    Match,
    Rule,
)
from pleroma.switches.openflow.tables import ADMISSION, COOKIE, COOKIE_MASK, FORWARDING, PLACED_KINDS, RuleLayout
from pleroma.switches.tracing.meeting import Meeting, MetRule, RuleKind

_LOCAL_PORT = 0xFFFFFFFE
_PORT_NAMES = {
    0xFFFFFFF8: "IN_PORT",
    0xFFFFFFF9: "TABLE",
    0xFFFFFFFA: "NORMAL",
    0xFFFFFFFB: "FLOOD",
    0xFFFFFFFC: "ALL",
    CONTROLLER_PORT: "CONTROLLER",
    _LOCAL_PORT: "LOCAL",
}


class FoundRules:
    """`SwitchRules` of entries that a switch has."""

    def __init__(self, entries: Iterable[FoundEntry], layout: RuleLayout) -> None:
        self._layout = layout
        self._tables: dict[int, list[FoundEntry]] = {}
        for entry in sorted(entries, key=lambda entry: -entry.priority):
            self._tables.setdefault(entry.table, []).append(entry)
        self._met_before: dict[tuple[Port, Dz], Meeting] = {}

    @classmethod
    def indexed(cls, entries: Iterable[FoundEntry], layout: RuleLayout) -> Self:
        """With all that takes a while done, for a thread of its own: a switch may have many entries."""
        made = cls(entries, layout)
        _ = made._by_key, made._flows
        return made

    def meet(self, in_port: Port, event: Dz) -> Meeting:
        place = in_port, event
        if place not in self._met_before:
            self._met_before[place] = self._meet(in_port, event)
        return self._met_before[place]

    def _meet(self, in_port: Port, event: Dz) -> Meeting:
        addresses = self._layout.addresses
        address = addresses.address(event.truncate(addresses.bits))
        passed: list[MetRule] = []
        in_front: list[MetRule] = []
        outputs: list[Output] = []
        is_clear = True
        refused = False
        table: int | None = ADMISSION
        while table is not None and (entry := self._first(table, in_port, address, in_front)) is not None:
            passed.append(self._met(entry))
            if entry.effect is None:
                table, is_clear = None, False
                break
            outputs += _outputs(entry.effect)
            is_clear &= all(each.port <= MAX_PORT or each.port in _ENDS for each in entry.effect.sends)
            table = entry.effect.goto
            refused = table is None and entry.rule is not None and _is_own(entry.rule)
        leaving = tuple(sorted(outputs, key=lambda output: output.port))
        if len(passed) > 1:
            return Meeting(passed[0], passed[-1], leaving, tuple(in_front), is_clear)
        if not passed or (refused and not leaving):
            return Meeting(None, in_front=tuple(in_front))
        followed = passed[0] if table is None else None
        return Meeting(passed[0], followed, leaving, tuple(in_front), is_clear)

    def _first(
        self, table: int, in_port: Port, address: IPv4Address | IPv6Address, in_front: list[MetRule]
    ) -> FoundEntry | None:
        """The entry of a table that an event meets. Entries before it that may match are added to `in_front`."""
        for entry in self._tables.get(table, ()):
            if _matches(entry.match, in_port, address):
                if entry.is_whole:
                    return entry
                in_front.append(self._met(entry))
        return None

    def _met(self, entry: FoundEntry) -> MetRule:
        own = None if entry.rule is None else self._own(entry.rule)
        return own or MetRule("foreign", outputs=_outputs(entry.effect), text=_described(entry))

    def _own(self, rule: Rule) -> MetRule | None:
        """A rule in the place of one that this controller writes. Its text says how it was changed, if it was."""
        place = self._layout.place(rule) if _is_own(rule) else None
        if place is None:
            return None
        kind, dz = place
        effect = EntryEffect(rule.sends, rule.goto)
        outputs = _outputs(effect)
        if kind in ("cell", "link") or dz is None:
            is_right = effect == EntryEffect((), FORWARDING)
        else:
            is_right = self._layout.writes(kind, Flow(dz, outputs), rule)
        return MetRule(kind, dz, outputs, "" if is_right else f"it {_effect(effect)}")

    def find(self, in_port: Port, kind: RuleKind, dz: Dz | None) -> MetRule | None:
        entry = self._by_key.get(self._layout.key(kind, in_port, dz)) if kind != "foreign" else None
        return None if entry is None else self._met(entry)

    @cached_property
    def _by_key(self) -> Mapping[Key, FoundEntry]:
        every = (entry for entries in self._tables.values() for entry in entries)
        return {entry.rule.key: entry for entry in every if entry.rule is not None and _is_own(entry.rule)}

    def forwarding(self) -> Iterable[Flow]:
        return self._flows

    @cached_property
    def _flows(self) -> list[Flow]:
        rules = (entry.rule for entry in self._tables.get(FORWARDING, ()) if entry.rule is not None)
        return [flow for rule in rules if _is_own(rule) and (flow := self._layout.flow(rule)) is not None]


def meet_known(known: Mapping[Key, Rule], layout: RuleLayout, in_port: Port, event: Dz) -> Meeting:
    """What an event meets among rules that a switch is known to have. There may be many: only those for it are read."""
    cells = [event.truncate(length) for length in range(layout.addresses.bits + 1)]
    keys = {layout.key(kind, in_port, dz) for kind in PLACED_KINDS for dz in cells}
    rules = [known[key] for key in keys if key in known]
    entries = [
        FoundEntry(rule.table, rule.priority, rule.cookie, rule.match, True, EntryEffect(rule.sends, rule.goto), rule)
        for rule in rules
    ]
    return FoundRules(entries, layout).meet(in_port, event)


_ENDS = (CONTROLLER_PORT, _LOCAL_PORT)
"""Reserved ports behind which no cable is, so that nothing is unclear about the way of an event."""


def _is_own(rule: Rule) -> bool:
    return rule.cookie & COOKIE_MASK == COOKIE


def _matches(match: Match, in_port: Port, address: IPv4Address | IPv6Address) -> bool:
    """Whether a match is for an event to this address that comes in at a port."""
    eth_type = ETH_TYPE_IPV6 if address.version == 6 else ETH_TYPE_IPV4
    return (
        match.in_port in (None, in_port)
        and match.eth_type in (None, eth_type)
        and match.ip_proto in (None, IP_PROTO_UDP)
        and (match.destination is None or address in match.destination)
    )


def _outputs(effect: EntryEffect | None) -> tuple[Output, ...]:
    """Where an entry sends to, by port."""
    sends = () if effect is None else effect.sends
    outputs = (Output(Port(s.port), None if s.destination is None else str(s.destination)) for s in sends)
    return tuple(sorted(outputs, key=lambda output: output.port))


def _described(entry: FoundEntry) -> str:
    match = entry.match
    fields = [
        f"in_port={match.in_port}" if match.in_port is not None else "",
        f"eth_type=0x{match.eth_type:04x}" if match.eth_type is not None and match.destination is None else "",
        f"ip_proto={match.ip_proto}" if match.ip_proto is not None else "",
        f"destination={match.destination}" if match.destination is not None else "",
        "" if entry.is_whole else "further fields",
    ]
    matched = ", ".join(each for each in fields if each) or "everything"
    head = f"table {entry.table}, priority {entry.priority}, cookie 0x{entry.cookie:x}"
    return f"{head}: matches {matched}, {_effect(entry.effect)}"


def _effect(effect: EntryEffect | None) -> str:
    if effect is None:
        return "does what is not understood here"
    sends = [
        f"{_PORT_NAMES.get(s.port, s.port)}{f' as {s.destination}' if s.destination else ''}" for s in effect.sends
    ]
    said = [f"sends to {', '.join(sends)}"] if sends else []
    said += [f"goes on to table {effect.goto}"] if effect.goto is not None else []
    return " and ".join(said) or "drops"


def packets_by_cell(counted: Iterable[CountedRule | None], layout: RuleLayout) -> dict[Dz, int]:
    """How many packets have followed each rule for a cell."""
    flows = ((layout.flow(each.rule), each.packets) for each in counted if each is not None)
    return {flow.dz: packets for flow, packets in flows if flow is not None}

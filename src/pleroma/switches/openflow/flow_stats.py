"""Flow statistics of a switch: each entry as a rule with its counters, or None if no controller of ours writes it.

The reverse of `flow_mod`. An entry whose lengths do not add up is an error; one with a field, action, instruction,
timeout or flag that a `Rule` cannot have belongs to somebody else, and is read as None. `found_entries` reads all
entries, as far as they can be understood.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

from pleroma.errors import SwitchError
from pleroma.switches.openflow import flow_mod
from pleroma.switches.openflow.rule import CONTROLLER_PORT, CountedRule, Match, Rule, Send

_ENTRY = struct.Struct("!HBxIIHHHHHxxQQQHH")
_TWO_SHORTS = struct.Struct("!HH")
_FIELD = struct.Struct("!I")
_PORT = struct.Struct("!IH")

_MASKS_V6 = {mask: length for length, mask in enumerate(flow_mod.MASKS_V6)}
_MASKS_V4 = {mask: length for length, mask in enumerate(flow_mod.MASKS_V4)}


class EntryEffect(NamedTuple):
    """What an entry does with a packet that it matches."""

    sends: tuple[Send, ...]
    goto: int | None


class FoundEntry(NamedTuple):
    """An entry of a flow table, whoever wrote it.

    `match` has the fields that a `Match` can have; unless it `is_whole`, there are further ones. `effect` is None if
    the entry does something that a `Rule` cannot do. `rule` is the entry as a rule, if it can be one.
    """

    table: int
    priority: int
    cookie: int
    match: Match
    is_whole: bool
    effect: EntryEffect | None
    rule: Rule | None


class _NotOurs(Exception):
    """Well-formed, and nothing that a rule can say."""


def flow_entries(body: bytes) -> list[CountedRule | None]:
    """The entries of one part of a switch's answer."""
    return [None if rule is None else CountedRule(rule, packets, octets) for rule, packets, octets in _rules(body)]


def found_entries(body: bytes) -> list[FoundEntry]:
    """The entries of one part of a switch's answer, whoever wrote them, as far as they can be understood."""
    found: list[FoundEntry] = []
    for raw in _split(body):
        match, is_whole = _known_fields(raw.match)
        try:
            sends, goto = _instructions(raw.instructions)
            does = EntryEffect(sends, goto)
        except _NotOurs:
            does = None
        found.append(FoundEntry(raw.table, raw.priority, raw.cookie, match, is_whole, does, _rule(raw)))
    return found


class _RawEntry(NamedTuple):
    table: int
    priority: int
    cookie: int
    packets: int
    octets: int
    is_plain: bool
    """It matches by fields, and has neither timeouts nor flags."""
    match: bytes
    instructions: bytes


def _split(body: bytes) -> Iterator[_RawEntry]:
    start = 0
    while start < len(body):
        if len(body) - start < _ENTRY.size:
            raise SwitchError("flow statistics end in the middle of an entry", field="flow statistics")
        (length, table, _, _, priority, idle, hard, flags, _, cookie, packets, octets, kind, match_length) = (
            _ENTRY.unpack_from(body, start)
        )
        match_end = start + 48 + match_length
        instructions = match_end + -match_length % 8
        end = start + length
        if match_length < 4 or not instructions <= end <= len(body):
            raise SwitchError("an entry of the flow statistics has an impossible length", field="flow statistics")
        is_plain = kind == 1 and not (idle or hard or flags)
        match = body[start + 52 : match_end]
        yield _RawEntry(table, priority, cookie, packets, octets, is_plain, match, body[instructions:end])
        start = end


def _rules(body: bytes) -> Iterator[tuple[Rule | None, int, int]]:
    for raw in _split(body):
        yield _rule(raw), raw.packets, raw.octets


def _rule(raw: _RawEntry) -> Rule | None:
    """The rule that an entry is, if a controller of ours could have written it."""
    try:
        if not raw.is_plain:
            raise _NotOurs
        match = _match(raw.match)
        sends, goto = _instructions(raw.instructions)
        return Rule(raw.table, raw.priority, match, sends, goto, raw.cookie)
    except _NotOurs:
        return None


def _known_fields(fields: bytes) -> tuple[Match, bool]:
    """The fields of a match that a rule can have, and whether it has no others."""
    try:
        return _match(fields), True
    except _NotOurs:
        pass
    match = Match()
    for single in _each_field(fields):
        try:
            match = _both(match, _match(single))
        except _NotOurs:
            continue
    return match, False


def _both(one: Match, other: Match) -> Match:
    """The fields of two matches that have none in common; those of the first if they contradict each other."""
    port, kind = (mine if mine is not None else its for mine, its in ((one[0], other[0]), (one[1], other[1])))
    try:
        return Match(port, kind, one.ip_proto or other.ip_proto, one.destination or other.destination)
    except SwitchError:
        return one


def _each_field(fields: bytes) -> Iterator[bytes]:
    """The fields of a match one by one, each with its header."""
    at = 0
    while at < len(fields):
        end = at + 4 + (fields[at + 3] if len(fields) - at >= 4 else 0)
        if len(fields) - at < 4 or end > len(fields):
            raise SwitchError("a match ends in the middle of a field", field="flow statistics")
        yield fields[at:end]
        at = end


def _match(fields: bytes) -> Match:
    in_port = eth_type = ip_proto = destination = None
    for single in _each_field(fields):
        (header,) = _FIELD.unpack_from(single)
        value = single[4:]
        if header == flow_mod.IN_PORT_FIELD:
            in_port = int.from_bytes(value, "big")
        elif header == flow_mod.ETH_TYPE_FIELD:
            eth_type = int.from_bytes(value, "big")
        elif header == flow_mod.IP_PROTO_FIELD:
            ip_proto = value[0]
        else:
            destination = _network(header, value)
    try:
        return Match(in_port, eth_type, ip_proto, destination)
    except SwitchError:
        raise _NotOurs from None


def _network(header: int, value: bytes) -> IPv4Network | IPv6Network:
    try:
        if header == flow_mod.IPV6_DST_MASKED:
            return IPv6Network((value[:16], _MASKS_V6[value[16:]]))
        if header == flow_mod.IPV6_DST_FIELD:
            return IPv6Network((value, 128))
        if header == flow_mod.IPV4_DST_MASKED:
            return IPv4Network((value[:4], _MASKS_V4[value[4:]]))
        if header == flow_mod.IPV4_DST_FIELD:
            return IPv4Network((value, 32))
    except (KeyError, ValueError):  # a mask that is no prefix, or bits that are not under it
        pass
    raise _NotOurs


def _instructions(body: bytes) -> tuple[tuple[Send, ...], int | None]:
    sends: tuple[Send, ...] = ()
    goto: int | None = None
    at = 0
    while at < len(body):
        kind, length = _kind_and_length(body, at)
        if kind == flow_mod.APPLY_ACTIONS and not sends and goto is None:
            sends = _actions(body[at + 8 : at + length])
        elif kind == flow_mod.GOTO_TABLE and goto is None and not (sends and sends[-1].rewrites):
            goto = body[at + 4]
        else:
            raise _NotOurs
        at += length
    return sends, goto


def _actions(body: bytes) -> tuple[Send, ...]:
    sends: list[Send] = []
    destination: IPv4Address | IPv6Address | None = None
    ethernet: str | None = None
    unused = False
    at = 0
    while at < len(body):
        kind, length = _kind_and_length(body, at)
        if kind == flow_mod.OUTPUT and length == 16:
            port, max_bytes = _PORT.unpack_from(body, at + 4)
            if port == CONTROLLER_PORT and max_bytes != flow_mod.WHOLE_PACKET:
                raise _NotOurs
            sends.append(Send(port, destination, ethernet))
            unused = False
        elif kind == flow_mod.SET_FIELD:
            (field,) = _FIELD.unpack_from(body, at + 4)
            if field == flow_mod.IPV6_DST_FIELD and length == 24:
                destination = IPv6Address(body[at + 8 : at + 24])
            elif field == flow_mod.IPV4_DST_FIELD and length == 16:
                destination = IPv4Address(body[at + 8 : at + 12])
            elif field == flow_mod.ETH_DST_FIELD and length == 16:
                ethernet = body[at + 8 : at + 14].hex(":")
            else:
                raise _NotOurs
            unused = True
        else:
            raise _NotOurs
        at += length
    if unused or not sends:
        raise _NotOurs
    return tuple(sends)


def _kind_and_length(body: bytes, at: int) -> tuple[int, int]:
    """Of an instruction or an action: all are multiples of eight bytes, and at least that."""
    kind, length = _TWO_SHORTS.unpack_from(body, at) if len(body) - at >= 8 else (0, 0)
    if length < 8 or length % 8 or at + length > len(body):
        raise SwitchError("an instruction or an action has an impossible length", field="flow statistics")
    return kind, length

"""Flow statistics of a switch: each entry as a rule with its counters, or None if no controller of ours writes it.

The reverse of `flow_mod`. An entry whose lengths do not add up is an error; one with a field, action, instruction,
timeout or flag that a `Rule` cannot have belongs to somebody else, and is read as None.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from pleroma.errors import SwitchError
from pleroma.switches.openflow import flow_mod
from pleroma.switches.openflow.rule import CONTROLLER_PORT, CountedRule, Match, Rule, Send

_ENTRY = struct.Struct("!HBxIIHHHHHxxQQQHH")
_TWO_SHORTS = struct.Struct("!HH")
_FIELD = struct.Struct("!I")
_PORT = struct.Struct("!IH")

_MASKS_V6 = {mask: length for length, mask in enumerate(flow_mod.MASKS_V6)}
_MASKS_V4 = {mask: length for length, mask in enumerate(flow_mod.MASKS_V4)}


class _NotOurs(Exception):
    """Well-formed, and nothing that a rule can say."""


def flow_entries(body: bytes) -> list[CountedRule | None]:
    """The entries of one part of a switch's answer."""
    entries: list[CountedRule | None] = []
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
        try:
            if kind != 1 or idle or hard or flags:
                raise _NotOurs
            match = _match(body[start + 52 : match_end])
            sends, goto = _instructions(body[instructions:end])
            entries.append(CountedRule(Rule(table, priority, match, sends, goto, cookie), packets, octets))
        except _NotOurs:
            entries.append(None)
        start = end
    return entries


def _match(fields: bytes) -> Match:
    in_port = eth_type = ip_proto = destination = None
    at = 0
    while at < len(fields):
        if len(fields) - at < 4:
            raise SwitchError("a match ends in the middle of a field", field="flow statistics")
        (header,) = _FIELD.unpack_from(fields, at)
        at += 4
        value = fields[at : at + (header & 0xFF)]
        at += len(value)
        if len(value) != header & 0xFF:
            raise SwitchError("a match ends in the middle of a field", field="flow statistics")
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

"""Flow-mods as bytes: an encoder for rules alone, because rules are what a controller sends by the thousand.

OpenFlow 1.3 (7.3.4.1) and 1.4 (7.3.4.2) lay out these messages alike but for the version in the header. Modifications
and deletions are strict: they concern exactly the rule with the same key.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Final

from pleroma.errors import SwitchError
from pleroma.routing.flow import Change
from pleroma.switches.openflow.rule import CONTROLLER_PORT, Match, Rule, Send

COMMANDS: Final[Mapping[Change, int]] = MappingProxyType({Change.ADD: 0, Change.MODIFY: 2, Change.DELETE: 4})
"""The commands of a flow-mod; those that modify and delete are the strict ones."""

MAX_MESSAGE_BYTES = 0xFFFF
"""Bytes of a message: its header has 16 bits for the length."""

FLOW_MOD = 14
NO_BUFFER = 0xFFFFFFFF
ANY_PORT_OR_GROUP = 0xFFFFFFFF
WHOLE_PACKET = 0xFFFF

# OXM headers: class 0x8000, the field's number, whether there is a mask, the length of what follows
IN_PORT_FIELD = 0x80000004
ETH_DST_FIELD = 0x80000606
ETH_TYPE_FIELD = 0x80000A02
IP_PROTO_FIELD = 0x80001401
IPV4_DST_FIELD = 0x80001804
IPV4_DST_MASKED = 0x80001908
IPV6_DST_FIELD = 0x80003610
IPV6_DST_MASKED = 0x80003720

OUTPUT = 0
SET_FIELD = 25
GOTO_TABLE = 1
APPLY_ACTIONS = 4

_ETHERNET = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_HEAD = struct.Struct("!BBHIQQBBHHHIIIHHHH")
_IN_PORT = struct.Struct("!II")
_ETH_TYPE = struct.Struct("!IH")
_IP_PROTO = struct.Struct("!IB")
_INSTRUCTION = struct.Struct("!HHI")
_GOTO = struct.Struct("!HHB3x")
_OUTPUT = struct.Struct("!HHIH6x")
_SET_IPV6 = struct.Struct("!HHI16s")
_SET_IPV4 = struct.Struct("!HHI4s4x")
_SET_ETHERNET = struct.Struct("!HHI6s2x")

_MASKED_V6 = IPV6_DST_MASKED.to_bytes(4, "big")
_MASKED_V4 = IPV4_DST_MASKED.to_bytes(4, "big")
_WHOLE_V6 = IPV6_DST_FIELD.to_bytes(4, "big")
_WHOLE_V4 = IPV4_DST_FIELD.to_bytes(4, "big")
MASKS_V6 = [((1 << 128) - (1 << (128 - length))).to_bytes(16, "big") for length in range(129)]
MASKS_V4 = [((1 << 32) - (1 << (32 - length))).to_bytes(4, "big") for length in range(33)]
_PADDING = [bytes(-length % 8) for length in range(8)]


def flow_mod(version: int, xid: int, change: Change, rule: Rule) -> bytes:
    """The message that makes this change at a switch."""
    try:
        match = match_fields(rule.match)
        body = b"" if change is Change.DELETE else instructions(rule)
        length = 4 + len(match)
        padding = _PADDING[length % 8]
        head = _HEAD.pack(
            version, FLOW_MOD, 48 + length + len(padding) + len(body), xid, rule.cookie, 0, rule.table,
            COMMANDS[change], 0, 0, rule.priority, NO_BUFFER, ANY_PORT_OR_GROUP, ANY_PORT_OR_GROUP, 0, 0, 1, length,
        )  # fmt: skip
    except (struct.error, OverflowError) as error:
        raise SwitchError(f"no message has room for this rule: {error}", field="rule", value=rule) from error
    return head + match + padding + body


def match_fields(match: Match) -> bytes:
    """What to match, field by field in the order that the standard asks for."""
    in_port, eth_type, ip_proto, destination = match
    fields = b""
    if in_port is not None:
        fields = _IN_PORT.pack(IN_PORT_FIELD, in_port)
    if eth_type is not None:
        fields += _ETH_TYPE.pack(ETH_TYPE_FIELD, eth_type)
    if ip_proto is not None:
        fields += _IP_PROTO.pack(IP_PROTO_FIELD, ip_proto)
    if destination is not None:
        length, packed = destination.prefixlen, destination.network_address.packed
        if len(packed) == 16:
            fields += _WHOLE_V6 + packed if length == 128 else _MASKED_V6 + packed + MASKS_V6[length]
        else:
            fields += _WHOLE_V4 + packed if length == 32 else _MASKED_V4 + packed + MASKS_V4[length]
    return fields


def instructions(rule: Rule) -> bytes:
    """What to do with what matches. A rule that drops has no instructions."""
    done = b""
    if rule.sends:
        list_of_actions = actions(rule.sends)
        done = _INSTRUCTION.pack(APPLY_ACTIONS, 8 + len(list_of_actions), 0) + list_of_actions
    if rule.goto is not None:
        done += _GOTO.pack(GOTO_TABLE, 8, rule.goto)
    return done


def actions(sends: tuple[Send, ...]) -> bytes:
    """One list of actions for all sends: a field is set where it differs from what is in force already."""
    parts = []
    destination: IPv4Address | IPv6Address | None = None
    ethernet: str | None = None
    for send in sends:
        if send.destination is not None and send.destination != destination:
            destination = send.destination
            parts.append(_set_destination(destination))
        if send.ethernet is not None and send.ethernet != ethernet:
            ethernet = send.ethernet
            parts.append(_SET_ETHERNET.pack(SET_FIELD, 16, ETH_DST_FIELD, ethernet_bytes(ethernet)))
        parts.append(_OUTPUT.pack(OUTPUT, 16, send.port, WHOLE_PACKET if send.port == CONTROLLER_PORT else 0))
    return b"".join(parts)


def _set_destination(address: IPv4Address | IPv6Address) -> bytes:
    if address.version == 6:
        return _SET_IPV6.pack(SET_FIELD, 24, IPV6_DST_FIELD, address.packed)
    return _SET_IPV4.pack(SET_FIELD, 16, IPV4_DST_FIELD, address.packed)


@lru_cache(maxsize=4096)
def ethernet_bytes(address: str) -> bytes:
    if not _ETHERNET.fullmatch(address):
        raise SwitchError(f"{address!r} is no Ethernet address", field="ethernet", value=address)
    return bytes.fromhex(address.replace(":", ""))

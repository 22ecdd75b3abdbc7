"""Every other message of OpenFlow 1.3 and 1.4 that a controller sends, built with os-ken's classes.

Bundles are part of OpenFlow 1.4 (7.3.9); in 1.3 they are an extension (ONF EXT-230) that wraps the same fields as
experimenter messages. What a switch sends is read in `replies`.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from os_ken.ofproto import ofproto_protocol

from pleroma.errors import SwitchError
from pleroma.routing.flow import Change
from pleroma.switches.openflow.flow_mod import MAX_MESSAGE_BYTES, NO_BUFFER, flow_mod
from pleroma.switches.openflow.rule import CONTROLLER_PORT, Rule

V13 = 4
V14 = 5
VERSIONS: Final = (V13, V14)

HELLO = 0
ERROR = 1
ECHO_REQUEST = 2
ECHO_REPLY = 3
EXPERIMENTER = 4
FEATURES_REQUEST = 5
FEATURES_REPLY = 6
PACKET_IN = 10
PORT_STATUS = 12
MULTIPART_REPLY = 19
BARRIER_REQUEST = 20
BARRIER_REPLY = 21
ROLE_REQUEST = 24
ROLE_REPLY = 25
ROLE_STATUS = 30
BUNDLE_CONTROL = 33
BUNDLE_ADD = 34

ANSWERS: Final = frozenset({FEATURES_REPLY, BARRIER_REPLY, ROLE_REPLY, BUNDLE_CONTROL})
"""To requests that have one message for an answer."""

FLOW_STATS = 1
AGGREGATE_STATS = 2
TABLE_STATS = 3
PORT_STATS = 4
TABLE_FEATURES = 12
PORT_DESCRIPTIONS = 13

BUNDLE_OPEN = 0
BUNDLE_COMMIT = 4
BUNDLE_DISCARD = 6
ATOMIC_AND_ORDERED = 3

MASTER = 2

HEADER = struct.Struct("!BBHI")
ONF = 0x4F4E4600
ONF_BUNDLE_CONTROL = 2300
_ONF_BUNDLE_ADD = 2301
_HELLO_FAILED = 0
VERSION_BITMAP = 1

_ADD_V14 = struct.Struct("!BBHIIxxH")
_ADD_V13 = struct.Struct("!BBHIIIIxxH")
ERROR_BODY = struct.Struct("!HH")
ROLE = struct.Struct("!I4xQ")
"""Of a request and of its answer: the role and the generation."""


class PortInfo(NamedTuple):
    """`up` is whether packets can pass: the link is there, and nobody has taken the port down."""

    number: int
    name: str
    mac: str
    up: bool


class PacketIn(NamedTuple):
    """A packet that a switch passed to the controller, the port it came in at, and the rule that did it."""

    in_port: int
    data: bytes
    table: int
    cookie: int
    reason: str


def hello(xid: int) -> bytes:
    """Both versions, as a bitmap, in a header of the later one."""
    return HEADER.pack(V14, HELLO, 16, xid) + struct.pack("!HHI", VERSION_BITMAP, 8, sum(1 << v for v in VERSIONS))


def hello_failed(version: int, xid: int, why: str) -> bytes:
    text = why.encode("ascii", "replace")[:200]
    return HEADER.pack(version, ERROR, 12 + len(text), xid) + ERROR_BODY.pack(_HELLO_FAILED, 0) + text


def plain(version: int, kind: int, xid: int, body: bytes = b"") -> bytes:
    """A message that is nothing but a header, or a header and bytes that mean nothing."""
    return HEADER.pack(version, kind, HEADER.size + len(body), xid) + body


def plain_request(kind: int, version: int, xid: int) -> bytes:
    return plain(version, kind, xid)


def role_request(version: int, xid: int, generation: int) -> bytes:
    """Asks a switch to obey this controller alone."""
    return plain(version, ROLE_REQUEST, xid, ROLE.pack(MASTER, generation))


def bundle_control(version: int, xid: int, bundle: int, action: int) -> bytes:
    protocol = _PROTOCOLS[version]
    kind = protocol.ofproto_parser.ONFBundleCtrlMsg if version == V13 else protocol.ofproto_parser.OFPBundleCtrlMsg
    return _bytes(kind(protocol, bundle, action, ATOMIC_AND_ORDERED, []), xid)


def bundle_add(version: int, xid: int, bundle: int, change: Change, rule: Rule) -> bytes:
    """A flow-mod inside a bundle; both messages must have the same xid."""
    inner = flow_mod(version, xid, change, rule)
    length = len(inner) + (_ADD_V13.size if version == V13 else _ADD_V14.size)
    if length > MAX_MESSAGE_BYTES:
        raise SwitchError("no message has room for this rule", field="rule", value=rule)
    if version == V13:
        head = _ADD_V13.pack(version, EXPERIMENTER, length, xid, ONF, _ONF_BUNDLE_ADD, bundle, ATOMIC_AND_ORDERED)
    else:
        head = _ADD_V14.pack(version, BUNDLE_ADD, length, xid, bundle, ATOMIC_AND_ORDERED)
    return head + inner


def wipe(version: int, xid: int, cookie: int, mask: int) -> bytes:
    """Delete the rules with these bits in their cookies, in all tables."""
    protocol = _PROTOCOLS[version]
    of, parser = protocol.ofproto, protocol.ofproto_parser
    message = parser.OFPFlowMod(
        protocol, cookie, mask, of.OFPTT_ALL, of.OFPFC_DELETE, out_port=of.OFPP_ANY, out_group=of.OFPG_ANY
    )
    return _bytes(message, xid)


def packet_out(version: int, xid: int, port: int, data: bytes, in_port: int = CONTROLLER_PORT) -> bytes:
    protocol = _PROTOCOLS[version]
    parser = protocol.ofproto_parser
    send = parser.OFPActionOutput(port, 0)
    if len(data) > MAX_MESSAGE_BYTES - 40:
        raise SwitchError("no message has room for this packet", field="data", value=len(data))
    return _bytes(parser.OFPPacketOut(protocol, NO_BUFFER, in_port, [send], data), xid)


def flow_stats_request(version: int, xid: int, cookie: int, mask: int, table: int | None) -> bytes:
    protocol = _PROTOCOLS[version]
    of, parser = protocol.ofproto, protocol.ofproto_parser
    where = of.OFPTT_ALL if table is None else table
    everything = parser.OFPMatch()
    request = parser.OFPFlowStatsRequest(protocol, 0, where, of.OFPP_ANY, of.OFPG_ANY, cookie, mask, everything)
    return _bytes(request, xid)


def aggregate_request(version: int, xid: int, cookie: int, mask: int, table: int, in_port: int) -> bytes:
    """Asks how many packets the rules for one port have met, all together."""
    protocol = _PROTOCOLS[version]
    of, parser = protocol.ofproto, protocol.ofproto_parser
    at_port = parser.OFPMatch(in_port=in_port)
    request = parser.OFPAggregateStatsRequest(protocol, 0, table, of.OFPP_ANY, of.OFPG_ANY, cookie, mask, at_port)
    return _bytes(request, xid)


def port_request(version: int, xid: int) -> bytes:
    protocol = _PROTOCOLS[version]
    return _bytes(protocol.ofproto_parser.OFPPortDescStatsRequest(protocol, 0), xid)


def port_stats_request(version: int, xid: int) -> bytes:
    """Asks what every port has sent and received."""
    protocol = _PROTOCOLS[version]
    return _bytes(protocol.ofproto_parser.OFPPortStatsRequest(protocol, 0, protocol.ofproto.OFPP_ANY), xid)


def table_request(version: int, xid: int) -> bytes:
    protocol = _PROTOCOLS[version]
    return _bytes(protocol.ofproto_parser.OFPTableStatsRequest(protocol, 0), xid)


def table_features_request(version: int, xid: int) -> bytes:
    protocol = _PROTOCOLS[version]
    return _bytes(protocol.ofproto_parser.OFPTableFeaturesStatsRequest(protocol, 0, []), xid)


_PROTOCOLS = {version: ofproto_protocol.ProtocolDesc(version) for version in VERSIONS}


def _bytes(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    try:
        message.serialize()
    except (struct.error, AssertionError) as error:
        raise SwitchError(f"no message has room for this: {error}", field="message") from error
    return bytes(message.buf)


def error_names(version: int, kind: int, code: int) -> tuple[str, str]:
    """What the standard calls this error in this version."""
    try:
        names = ofproto_protocol.ProtocolDesc(version).ofproto
    except AssertionError:
        return f"type {kind}", f"code {code}"
    return tuple(  # type: ignore[return-value]
        f"{what} {number}" if name.startswith("Unknown") else name.partition("(")[0]
        for what, number, name in (
            ("type", kind, names.ofp_error_type_to_str(kind)),
            ("code", code, names.ofp_error_code_to_str(kind, code)),
        )
    )

"""What a switch sends, read with care: whatever is wrong with a message becomes a SwitchError.

os-ken could read it too, but answers malformed bytes with nothing at all, and an entry of length zero with an endless
loop. Here every length is checked before it is believed.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from pleroma.errors import SwitchError
from pleroma.switches.openflow.flow_mod import IN_PORT_FIELD
from pleroma.switches.openflow.messages import (
    ERROR_BODY,
    EXPERIMENTER,
    HEADER,
    ONF,
    ONF_BUNDLE_CONTROL,
    ROLE,
    V13,
    V14,
    VERSION_BITMAP,
    VERSIONS,
    PacketIn,
    PortInfo,
    error_names,
)

_ONF_ERRORS = 2300
_FENCING = frozenset({("OFPET_ROLE_REQUEST_FAILED", "OFPRRFC_STALE"), ("OFPET_BAD_REQUEST", "OFPBRC_IS_SLAVE")})
_BUNDLE_FAILED = 17
_EXPERIMENTER_ERROR = 0xFFFF
_EXPERIMENT = struct.Struct("!II")
_CONTROL = struct.Struct("!IHH")
_FEATURES = struct.Struct("!QIBB2xII")
_MULTIPART = struct.Struct("!HH4x")
_PACKET_IN = struct.Struct("!IHBBQHH")
_PORT = struct.Struct("!IHxx6s2x16sII")
_PORT_V13_SIZE = 64
_TABLE_STATS = struct.Struct("!B3xIQQ")
_PORT_STATS_V13 = struct.Struct("!I4x8xQ8xQ64x8x")
_PORT_STATS_V14 = struct.Struct("!H2xI8x8xQ8xQ32x")
_AGGREGATE = struct.Struct("!QQI4x")
_ROLE_STATUS = struct.Struct("!IB3xQ")
_TABLE_FEATURES = struct.Struct("!HB5x32sQQII")


class Features(NamedTuple):
    datapath: int
    tables: int
    auxiliary: int


class PortTraffic(NamedTuple):
    """What a port has sent, by the switch's own count."""

    packets: int
    bytes: int


class ErrorMessage(NamedTuple):
    """An error that a switch sent. `kind` and `code` are the standard's names; `data` is the start of the request."""

    xid: int
    kind: str
    code: str
    data: bytes

    @property
    def is_fencing(self) -> bool:
        """Whether the switch says by this error that it obeys another controller."""
        return (self.kind, self.code) in _FENCING

    def __str__(self) -> str:
        return f"{self.kind} {self.code}"


class Role(NamedTuple):
    """What a switch says that a controller is to it, and the generation that it goes by."""

    role: int
    generation: int


class ReplyPart(NamedTuple):
    """One message of an answer that may have several."""

    kind: int
    more: bool
    body: bytes


def agreed_version(message: bytes) -> int | None:
    """The latest version that both sides speak, going by the other's hello."""
    version, _, length, _ = HEADER.unpack_from(message)
    bitmap: int | None = None
    at = HEADER.size
    while at < length:
        kind, size = struct.unpack_from("!HH", message, at) if length - at >= 4 else (0, 0)
        if size < 4 or at + size > length:
            raise SwitchError("an element of its hello has an impossible length", field="hello")
        if kind == VERSION_BITMAP and size >= 8:
            (bitmap,) = struct.unpack_from("!I", message, at + 4)
        at += size + -size % 8
    if bitmap is not None:
        return max((v for v in VERSIONS if bitmap >> v & 1), default=None)
    ours = min(version, max(VERSIONS))
    return ours if ours in VERSIONS else None


def error_message(message: bytes) -> ErrorMessage:
    """Read an error by the version in its own header, which may differ from the agreed version."""
    version, _, _, xid = HEADER.unpack_from(message)
    kind, code = _unpack(ERROR_BODY, message, 8, "error")
    data = message[12:]
    if kind == _EXPERIMENTER_ERROR and int.from_bytes(data[:4], "big") == ONF and len(data) >= 4:
        data = data[4:]
        if 0 <= code - _ONF_ERRORS < 16:  # errors about bundles in 1.3 have the codes of 1.4, plus an offset
            return ErrorMessage(xid, *error_names(V14, _BUNDLE_FAILED, code - _ONF_ERRORS), data)
    return ErrorMessage(xid, *error_names(version, kind, code), data)


def features(message: bytes) -> Features:
    datapath, _, tables, auxiliary, _, _ = _unpack(_FEATURES, message, 8, "features")
    return Features(datapath, tables, auxiliary)


def bundle_reply(message: bytes) -> tuple[int, int] | None:
    """The number of a bundle and what was done with it; None for an experimenter message about something else."""
    version, kind, _, _ = HEADER.unpack_from(message)
    at = HEADER.size
    if kind == EXPERIMENTER:
        if version != V13 or _unpack(_EXPERIMENT, message, at, "experimenter") != (ONF, ONF_BUNDLE_CONTROL):
            return None
        at += _EXPERIMENT.size
    bundle, action, _ = _unpack(_CONTROL, message, at, "bundle control")
    return bundle, action


def role(message: bytes) -> Role:
    return Role(*_unpack(ROLE, message, 8, "role reply"))


def role_status(message: bytes) -> Role:
    role, _, generation = _unpack(_ROLE_STATUS, message, 8, "role status")
    return Role(role, generation)


def part(message: bytes) -> ReplyPart:
    kind, flags = _unpack(_MULTIPART, message, 8, "multipart")
    return ReplyPart(kind, bool(flags & 1), message[16:])


def packet_in(message: bytes) -> PacketIn:
    _, _, reason, table, cookie, kind, length = _unpack(_PACKET_IN, message, 8, "packet-in")
    fields = message[28 : 24 + length]
    data = 24 + length + -length % 8 + 2
    if kind != 1 or length < 4 or data > len(message):
        raise SwitchError("a packet-in has an impossible match", field="packet-in")
    return PacketIn(_in_port(fields), message[data:], table, cookie, _REASONS.get(reason, f"reason {reason}"))


def _in_port(fields: bytes) -> int:
    at = 0
    while len(fields) - at >= 4:
        header = int.from_bytes(fields[at : at + 4], "big")
        end = at + 4 + (header & 0xFF)
        if header == IN_PORT_FIELD and end <= len(fields):
            return int.from_bytes(fields[at + 4 : end], "big")
        at = end
    raise SwitchError("a packet-in does not say where the packet came in", field="packet-in")


def port_status(message: bytes) -> tuple[PortInfo, str]:
    (reason,) = _unpack(struct.Struct("!B7x"), message, 8, "port status")
    described = ports(message[0], message[16:])
    if len(described) != 1:
        raise SwitchError("a port status is about one port", field="port status")
    return described[0], _PORT_REASONS.get(reason, "modify")


def ports(version: int, body: bytes) -> list[PortInfo]:
    """The ports of one part of a switch's answer."""
    found: list[PortInfo] = []
    at = 0
    while at < len(body):
        number, size, mac, name, config, state = _unpack(_PORT, body, at, "port")
        if version == V13:
            size = _PORT_V13_SIZE
        if size < _PORT.size or at + size > len(body):
            raise SwitchError("a port has an impossible length", field="port")
        text = name.partition(b"\0")[0].decode("utf-8", "replace")
        found.append(PortInfo(number, text, mac.hex(":"), not (config & 1 or state & 1)))
        at += size
    return found


def active_entries(body: bytes) -> dict[int, int]:
    """How many rules each table has."""
    if len(body) % _TABLE_STATS.size:
        raise SwitchError("table statistics end in the middle of a table", field="table statistics")
    return {table: active for table, active, _, _ in _TABLE_STATS.iter_unpack(body)}


def aggregate_packets(body: bytes) -> int:
    """How many packets some rules have met."""
    if len(body) != _AGGREGATE.size:
        raise SwitchError("aggregate statistics have an impossible length", field="aggregate statistics")
    packets: int = _AGGREGATE.unpack(body)[0]
    return packets


def sent_by_port(version: int, body: bytes) -> dict[int, PortTraffic]:
    """What each port of one part of a switch's answer has sent."""
    found: dict[int, PortTraffic] = {}
    at = 0
    while at < len(body):
        if version == V13:
            size, (port, packets, sent) = _PORT_STATS_V13.size, _unpack(_PORT_STATS_V13, body, at, "port statistics")
        else:
            size, port, packets, sent = _unpack(_PORT_STATS_V14, body, at, "port statistics")
        if size < _PORT_STATS_V14.size or at + size > len(body):
            raise SwitchError("statistics of a port have an impossible length", field="port statistics")
        found[port] = PortTraffic(packets, sent)
        at += size
    return found


def room(body: bytes) -> dict[int, int]:
    """How many rules each table has room for, as far as the switch says."""
    found: dict[int, int] = {}
    at = 0
    while at < len(body):
        size, table, _, _, _, _, max_entries = _unpack(_TABLE_FEATURES, body, at, "table features")
        if size < _TABLE_FEATURES.size or at + size > len(body):
            raise SwitchError("a table's features have an impossible length", field="table features")
        found[table] = max_entries
        at += size
    return found


_REASONS = {0: "miss", 1: "action", 2: "ttl", 3: "action set", 4: "group", 5: "packet-out"}
_PORT_REASONS = {0: "add", 1: "delete", 2: "modify"}


def _unpack(layout: struct.Struct, message: bytes, at: int, what: str) -> tuple[Any, ...]:
    if len(message) - at < layout.size:
        raise SwitchError(f"{what}: the message is too short", field=what)
    return layout.unpack_from(message, at)

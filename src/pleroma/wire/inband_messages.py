"""Messages between a host and the controller that travel as packets through the network itself (Bhowmik et al. 2017,
II).

A host says hello, with proof that it has a principal's token; the controller answers with a session; from then on each
message carries its session, a sequence number and a code that only the two can make. What is too large for a datagram
goes in parts. Nothing is encrypted. All of this is pure: bytes in, values out, and `WireError` for anything else.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from pleroma.errors import WireError, shown
from pleroma.wire.header import MAX_SIZE, cut_short, too_large
from pleroma.wire.tunnel import stranger

MAGIC = b"PLC"
VERSION = 1
START = MAGIC + bytes((VERSION,))
NONCE = 16
SESSION = 8
CODE = 16
"""Bytes of the authentication code: the first of an HMAC-SHA256."""
MAX_NAME = 255
MAX_PARTS = 4096
_PART = Struct("!8sQHH")
_HEAD = len(START) + 1
PART_SIZE = MAX_SIZE - _HEAD - _PART.size - CODE
"""The most bytes of a body in one datagram."""


class Kind(IntEnum):
    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    REQUEST = 4
    RESPONSE = 5
    LACKS_REQUEST = 6
    LACKS_RESPONSE = 7


PARTS = (Kind.REQUEST, Kind.RESPONSE, Kind.LACKS_REQUEST, Kind.LACKS_RESPONSE)


class Reason(IntEnum):
    """Why a message was refused. Nobody proves it, so it is a hint and no more."""

    NOT_KNOWN = 1
    """No such principal, or another token."""
    NO_SESSION = 2
    """Say hello again."""


@dataclass(frozen=True, slots=True)
class Hello:
    """From the client: `host` is the name it would like to have, or nothing."""

    nonce: bytes
    principal: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a hello, whose nonce it repeats."""

    nonce: bytes
    session: bytes
    server_nonce: bytes
    host: str = ""
    """The name of the host at the place that the hello came from, if it has one."""


@dataclass(frozen=True, slots=True)
class Refused:
    """`about` is the nonce of a hello, or a session filled up with zeros."""

    about: bytes
    reason: Reason


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a request or a response; or, of kind `LACKS_…`, the numbers of pieces that have not arrived."""

    kind: Kind
    session: bytes
    sequence: int
    part: int
    parts: int
    body: bytes


Message = Hello | Welcome | Refused | Part


# -- keys --------------------------------------------------------------------------------------------------------------


def principal_key(digest: bytes) -> bytes:
    """Of a principal, from the SHA-256 of its token."""
    return hmac.digest(digest, b"pleroma in-band", "sha256")


def token_key(token: str) -> bytes:
    return principal_key(hashlib.sha256(token.encode()).digest())


def session_key(key: bytes, nonce: bytes, server_nonce: bytes) -> bytes:
    return hmac.digest(key, nonce + server_nonce, "sha256")


def is_genuine(data: bytes, key: bytes) -> bool:
    """Whether a message that `unpack` has read ends in the code of this key."""
    return hmac.compare_digest(_code(data[:-CODE], key), data[-CODE:])


def _code(data: bytes, key: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")[:CODE]


# -- messages ----------------------------------------------------------------------------------------------------------


def pack(message: Message, key: bytes = b"") -> bytes:
    """The datagram, with the code of this key behind it; a refusal has none."""
    match message:
        case Hello():
            _check_size("nonce", message.nonce, NONCE)
            data = _head(Kind.HELLO) + message.nonce + _name(message.principal) + _name(message.host)
        case Welcome():
            for field, size in (("nonce", NONCE), ("session", SESSION), ("server_nonce", NONCE)):
                _check_size(field, getattr(message, field), size)
            data = _head(Kind.WELCOME) + message.nonce + message.session + message.server_nonce + _name(message.host)
        case Refused():
            _check_size("about", message.about, NONCE)
            return _head(Kind.REFUSED) + message.about + bytes((Reason(message.reason),))
        case Part():
            _check_part(message)
            data = _head(message.kind) + _PART.pack(message.session, message.sequence, message.part, message.parts)
            data += message.body
    return data + _code(data, key)


def unpack(data: bytes) -> Message:
    """The message in a datagram. Whether it is genuine, `is_genuine` has to tell."""
    if data[:4] != START:
        raise stranger(data, START, _HEAD + CODE)
    if len(data) > MAX_SIZE:
        raise too_large(len(data))
    if len(data) <= _HEAD + CODE:
        raise cut_short(data, _HEAD + CODE + 1)
    try:
        kind = Kind(data[4])
    except ValueError:
        raise WireError(f"{shown(data[4])} is not a kind of message", field="kind", value=data[4]) from None
    if kind is Kind.REFUSED:
        return _refused(data[_HEAD:])
    rest = data[_HEAD:-CODE]
    if kind is Kind.HELLO:
        nonce, rest = _taken(rest, NONCE)
        principal, rest = _read_name("principal", rest)
        host, rest = _read_name("host", rest)
        _check_end(rest)
        return Hello(nonce, principal, host)
    if kind is Kind.WELCOME:
        nonce, rest = _taken(rest, NONCE)
        session, rest = _taken(rest, SESSION)
        server_nonce, rest = _taken(rest, NONCE)
        host, rest = _read_name("host", rest)
        _check_end(rest)
        return Welcome(nonce, session, server_nonce, host)
    head, body = _taken(rest, _PART.size)
    session, sequence, number, parts = _PART.unpack(head)
    part = Part(kind, session, sequence, number, parts, body)
    _check_part(part)
    return part


def _refused(rest: bytes) -> Refused:
    about, rest = _taken(rest, NONCE)
    reason, rest = _taken(rest, 1)
    _check_end(rest)
    try:
        return Refused(about, Reason(reason[0]))
    except ValueError:
        raise WireError(f"{reason[0]} is not a reason", field="reason", value=reason[0]) from None


def _check_part(part: Part) -> None:
    if part.kind not in PARTS:
        raise WireError(f"{shown(part.kind)} has no parts", field="kind", value=part.kind)
    _check_size("session", part.session, SESSION)
    if not 0 <= part.sequence < 1 << 64:
        raise WireError(f"{part.sequence} is not a number of 64 bits", field="sequence", value=part.sequence)
    if not 0 < part.parts <= MAX_PARTS or not 0 <= part.part < part.parts:
        reason = f"part {part.part} of {part.parts} is none of 1 to {MAX_PARTS}"
        raise WireError(reason, field="part", value=part.part)
    if len(part.body) > PART_SIZE:
        raise too_large(_HEAD + _PART.size + len(part.body) + CODE)


def _head(kind: Kind) -> bytes:
    return START + bytes((kind,))


def _name(name: str) -> bytes:
    data = name.encode(errors="replace")
    if len(data) > MAX_NAME:
        raise WireError(f"a name has at most {MAX_NAME} bytes, not {len(data)}", field="name", value=name)
    return bytes((len(data),)) + data


def _read_name(field: str, data: bytes) -> tuple[str, bytes]:
    size, rest = _taken(data, 1)
    name, rest = _taken(rest, size[0])
    try:
        return name.decode(), rest
    except UnicodeDecodeError:
        raise WireError("is not UTF-8", field=field, value=name) from None


def _taken(data: bytes, size: int) -> tuple[bytes, bytes]:
    if len(data) < size:
        raise cut_short(data, size)
    return data[:size], data[size:]


def _check_end(rest: bytes) -> None:
    if rest:
        raise WireError(f"{len(rest)} bytes behind the message", field="size", value=len(rest))


def _check_size(field: str, value: bytes, size: int) -> None:
    if len(value) != size:
        raise WireError(f"has {size} bytes, not {len(value)}", field=field, value=len(value))

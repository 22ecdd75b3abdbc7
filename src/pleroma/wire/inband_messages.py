"""Messages between a host and the controller that travel as packets through the network itself.

Hosts send them to a fixed address that stands for the controller (Bhowmik et al. 2017, II). A host says hello, and the
controller answers with a cookie that is good at that place for a while. The host says hello again, with the cookie and
with proof that it has a principal's token; the controller answers with a session. From then on each message carries its
session, a sequence number and an authentication code that only these two can make. What is too large for a datagram
goes in parts. Nothing is encrypted. This module is pure: bytes in, values out, and `WireError` for anything else.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from pleroma.errors import WireError, shown
from pleroma.wire.header import MAX_PACKET_BYTES, cut_short, too_large
from pleroma.wire.token_proof import PROOF_BYTES, prove, proven_key
from pleroma.wire.tunnel import wrong_start

INBAND_MAGIC = b"PLC"
INBAND_VERSION = 2
INBAND_START = INBAND_MAGIC + bytes((INBAND_VERSION,))
NONCE_BYTES = 16
SESSION_BYTES = 8
COOKIE_BYTES = 16
NO_COOKIE = bytes(COOKIE_BYTES)
CODE_BYTES = 16
"""The authentication code is the beginning of an HMAC-SHA256."""
MAX_NAME_BYTES = 255
MAX_PARTS = 4096
_PART = Struct("!8sQHH")
_HEAD = len(INBAND_START) + 1
MAX_PART_BYTES = MAX_PACKET_BYTES - _HEAD - _PART.size - CODE_BYTES
"""Of a message's body in one datagram."""


class MessageKind(IntEnum):
    HELLO = 1
    CHALLENGE = 2
    WELCOME = 3
    REFUSED = 4
    REQUEST = 5
    RESPONSE = 6
    LACKS_REQUEST = 7
    LACKS_RESPONSE = 8


MESSAGE_PART_KINDS = (MessageKind.REQUEST, MessageKind.RESPONSE, MessageKind.LACKS_REQUEST, MessageKind.LACKS_RESPONSE)


class RefusalReason(IntEnum):
    """Why a message was refused. A refusal carries no proof, so it is a hint and no more."""

    NOT_KNOWN = 1
    """No such principal, or another token."""
    NO_SESSION = 2
    """The controller does not know the session: the client has to say hello again."""


@dataclass(frozen=True, slots=True)
class Hello:
    """From the client; `host` is the name that it asks to have as a host, or empty.

    The first hello has no cookie and proves nothing. It is as long as the next one, so no answer is longer than it.
    """

    nonce: bytes
    principal: str
    host: str = ""
    cookie: bytes = NO_COOKIE


@dataclass(frozen=True, slots=True)
class Challenge:
    """The controller's answer to a hello without a cookie that is good: say hello again with this one.

    Nobody proves it, and the controller remembers nothing of it.
    """

    nonce: bytes
    cookie: bytes


@dataclass(frozen=True, slots=True)
class Welcome:
    """The controller's answer to a hello that was proven, whose nonce it repeats. Its code is by the session's key."""

    nonce: bytes
    session: bytes
    server_nonce: bytes
    host: str = ""
    """The name of the host that the hello came from; empty if it has none."""


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """`about` is the nonce of the hello that is refused, or the session of the part, filled up with zeros."""

    about: bytes
    reason: RefusalReason


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a request or a response; or, of kind `LACKS_…`, the numbers of the parts that have not arrived."""

    kind: MessageKind
    session: bytes
    sequence: int
    part: int
    parts: int
    body: bytes


Message = Hello | Challenge | Welcome | MessageRefused | MessagePart


def hello_key(data: bytes, verifier: bytes) -> bytes | None:
    """The client's key, from a hello that `unpack` has read; None if the sender does not have the token."""
    return proven_key(verifier, data[:-PROOF_BYTES], data[-PROOF_BYTES:])


def is_genuine(data: bytes, key: bytes) -> bool:
    """Whether a datagram that `unpack` has read ends in the authentication code by this key."""
    return hmac.compare_digest(_code(data[:-CODE_BYTES], key), data[-CODE_BYTES:])


def _code(data: bytes, key: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")[:CODE_BYTES]


def pack(message: Message, key: bytes = b"") -> bytes:
    """The datagram of a message, with the authentication code by this key behind it.

    A hello with a cookie ends in a proof by the client's key instead. A challenge and a refusal end in nothing.
    """
    match message:
        case Hello():
            _check_size("nonce", message.nonce, NONCE_BYTES)
            _check_size("cookie", message.cookie, COOKIE_BYTES)
            names = _name(message.principal) + _name(message.host)
            data = _head(MessageKind.HELLO) + message.nonce + message.cookie + names
            return data + (bytes(PROOF_BYTES) if message.cookie == NO_COOKIE else prove(key, data))
        case Challenge():
            _check_size("nonce", message.nonce, NONCE_BYTES)
            _check_size("cookie", message.cookie, COOKIE_BYTES)
            return _head(MessageKind.CHALLENGE) + message.nonce + message.cookie
        case Welcome():
            for field, size in (("nonce", NONCE_BYTES), ("session", SESSION_BYTES), ("server_nonce", NONCE_BYTES)):
                _check_size(field, getattr(message, field), size)
            data = (
                _head(MessageKind.WELCOME)
                + message.nonce
                + message.session
                + message.server_nonce
                + _name(message.host)
            )
        case MessageRefused():
            _check_size("about", message.about, NONCE_BYTES)
            return _head(MessageKind.REFUSED) + message.about + bytes((RefusalReason(message.reason),))
        case MessagePart():
            _check_part(message)
            data = _head(message.kind) + _PART.pack(message.session, message.sequence, message.part, message.parts)
            data += message.body
    return data + _code(data, key)


def unpack(data: bytes) -> Message:
    """The message in a datagram. Nothing that it ends in is checked: see `hello_key` and `is_genuine`."""
    if data[:4] != INBAND_START:
        raise wrong_start(data, INBAND_START, _HEAD + CODE_BYTES)
    if len(data) > MAX_PACKET_BYTES:
        raise too_large(len(data))
    if len(data) <= _HEAD + CODE_BYTES:
        raise cut_short(data, _HEAD + CODE_BYTES + 1)
    try:
        kind = MessageKind(data[4])
    except ValueError:
        raise WireError(f"{shown(data[4])} is not a kind of message", field="kind", value=data[4]) from None
    if kind is MessageKind.REFUSED:
        return _refused(data[_HEAD:])
    if kind is MessageKind.CHALLENGE:
        nonce, rest = _taken(data[_HEAD:], NONCE_BYTES)
        cookie, rest = _taken(rest, COOKIE_BYTES)
        _check_end(rest)
        return Challenge(nonce, cookie)
    if kind is MessageKind.HELLO:
        return _hello(data[_HEAD:-PROOF_BYTES])
    rest = data[_HEAD:-CODE_BYTES]
    if kind is MessageKind.WELCOME:
        nonce, rest = _taken(rest, NONCE_BYTES)
        session, rest = _taken(rest, SESSION_BYTES)
        server_nonce, rest = _taken(rest, NONCE_BYTES)
        host, rest = _read_name("host", rest)
        _check_end(rest)
        return Welcome(nonce, session, server_nonce, host)
    head, body = _taken(rest, _PART.size)
    session, sequence, number, parts = _PART.unpack(head)
    part = MessagePart(kind, session, sequence, number, parts, body)
    _check_part(part)
    return part


def _hello(rest: bytes) -> Hello:
    nonce, rest = _taken(rest, NONCE_BYTES)
    cookie, rest = _taken(rest, COOKIE_BYTES)
    principal, rest = _read_name("principal", rest)
    host, rest = _read_name("host", rest)
    _check_end(rest)
    return Hello(nonce, principal, host, cookie)


def _refused(rest: bytes) -> MessageRefused:
    about, rest = _taken(rest, NONCE_BYTES)
    reason, rest = _taken(rest, 1)
    _check_end(rest)
    try:
        return MessageRefused(about, RefusalReason(reason[0]))
    except ValueError:
        raise WireError(f"{reason[0]} is not a reason", field="reason", value=reason[0]) from None


def _check_part(part: MessagePart) -> None:
    if part.kind not in MESSAGE_PART_KINDS:
        raise WireError(f"{shown(part.kind)} has no parts", field="kind", value=part.kind)
    _check_size("session", part.session, SESSION_BYTES)
    if not 0 <= part.sequence < 1 << 64:
        raise WireError(f"{part.sequence} is not a number of 64 bits", field="sequence", value=part.sequence)
    if not 0 < part.parts <= MAX_PARTS or not 0 <= part.part < part.parts:
        reason = f"part {part.part} of {part.parts} is none of 1 to {MAX_PARTS}"
        raise WireError(reason, field="part", value=part.part)
    if len(part.body) > MAX_PART_BYTES:
        raise too_large(_HEAD + _PART.size + len(part.body) + CODE_BYTES)


def _head(kind: MessageKind) -> bytes:
    return INBAND_START + bytes((kind,))


def _name(name: str) -> bytes:
    data = name.encode(errors="replace")
    if len(data) > MAX_NAME_BYTES:
        raise WireError(f"a name has at most {MAX_NAME_BYTES} bytes, not {len(data)}", field="name", value=name)
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

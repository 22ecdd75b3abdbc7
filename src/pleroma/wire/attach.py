"""Frames by which a client attaches its socket to a simulated host or to a broker: a kind and a secret.

The controller tells the client a port and a secret. By sending the secret to the port, the client attaches the socket
that it will send and receive events with. It repeats that for as long as it lives, so that the sockets of clients that
died are forgotten.
"""

from __future__ import annotations

from enum import IntEnum

from pleroma.errors import WireError, shown
from pleroma.wire.header import cut_short
from pleroma.wire.tunnel import wrong_start

ATTACH_MAGIC = b"PLA"
ATTACH_VERSION = 1
ATTACH_START = ATTACH_MAGIC + bytes((ATTACH_VERSION,))
SECRET_BYTES = 16
ATTACH_BYTES = len(ATTACH_START) + 1 + SECRET_BYTES


class AttachKind(IntEnum):
    """The client sends `ATTACH`, which is answered by `ATTACHED` or `REFUSED`, and `DETACH`, which is not answered."""

    ATTACH = 1
    ATTACHED = 2
    DETACH = 3
    REFUSED = 4


def pack(kind: AttachKind, secret: bytes) -> bytes:
    if len(secret) != SECRET_BYTES:
        raise WireError(f"a secret has {SECRET_BYTES} bytes, not {len(secret)}", field="secret", value=len(secret))
    return ATTACH_START + bytes((AttachKind(kind),)) + secret


def unpack(frame: bytes) -> tuple[AttachKind, bytes]:
    """The kind of a frame, and the secret in it."""
    if frame[:4] != ATTACH_START:
        raise wrong_start(frame, ATTACH_START, ATTACH_BYTES)
    if len(frame) < ATTACH_BYTES:
        raise cut_short(frame, ATTACH_BYTES)
    if len(frame) > ATTACH_BYTES:
        raise WireError(f"{len(frame)} bytes, a frame has {ATTACH_BYTES}", field="size", value=len(frame))
    try:
        return AttachKind(frame[4]), frame[5:]
    except ValueError:
        raise WireError(f"{shown(frame[4])} is not a kind of frame", field="kind", value=frame[4]) from None
